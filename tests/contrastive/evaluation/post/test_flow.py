"""The flow is invertible, its density is a density, and fitting it makes held-out vectors likelier."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from contrastive.errors import UserError
from contrastive.evaluation.post import fit_post
from contrastive.evaluation.post.flow import fit_flow
from contrastive.evaluation.post.glow import Glow
from tests.contrastive.evaluation.post.test_contract import clouds


def crescents(texts: int, seed: int) -> np.ndarray:
    """Bent clouds in eight dimensions, which no linear map makes normal."""
    generator = np.random.default_rng(seed)
    flat = generator.normal(size=(texts, 8))
    flat[:, 4:] = 0.3 * flat[:, 4:] + flat[:, :4] ** 2 - 1
    return (flat / flat.std()).astype(np.float32)


def trained(size: int = 9) -> Glow:
    return fit_flow(clouds(200, size) / 5 - 1, steps=20)


@pytest.mark.parametrize("size", [2, 7, 9])
def test_the_log_determinant_is_that_of_the_jacobian(size):
    glow = trained(size).double()
    for vector in torch.from_numpy(clouds(3, size, seed=1)).double():
        jacobian = torch.autograd.functional.jacobian(lambda x: glow(x[None])[0], vector)
        assert glow.log_det().item() == pytest.approx(torch.linalg.slogdet(jacobian)[1].item(), abs=1e-6)


def test_the_likelihood_is_a_density_of_the_vectors():
    """Without couplings the flow is linear, and its density a normal distribution's, which scipy knows."""
    glow = Glow(4, levels=2, depth=2, hidden=3, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        for parameter in (p for name, p in glow.named_parameters() if "log_" in name or "shift" in name):
            parameter.add_(0.3)
    origin, axes = glow(torch.zeros(1, 4).double()), glow(torch.eye(4).double())
    matrix = torch.linalg.inv((axes - origin).T).detach().numpy()
    mean = -matrix @ origin[0].detach().numpy()
    vectors = np.random.default_rng(0).normal(size=(5, 4))
    expected = multivariate_normal(mean, matrix @ matrix.T).logpdf(vectors)
    assert glow.log_likelihood(torch.from_numpy(vectors)).detach().numpy() == pytest.approx(expected)


@pytest.mark.full
def test_held_out_vectors_become_likelier_the_longer_it_fits():
    train, other = crescents(2000, 0), torch.from_numpy(crescents(1000, 1))
    likely = [fit_flow(train, steps).log_likelihood(other).mean().item() for steps in (0, 20, 60, 200)]
    assert likely == sorted(likely) and likely[-1] > likely[0] + 1
    exact = multivariate_normal(train.mean(0), np.cov(train.T)).logpdf(other.numpy()).mean()
    assert likely[-1] > exact + 0.5  # bent, which no normal distribution is


def test_the_global_random_state_and_the_threads_are_left_alone():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_post("flow", clouds())(clouds(5))
        assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_one_dimension_has_no_halves():
    with pytest.raises(UserError, match="flow needs embeddings of at least 2 dimensions"):
        fit_post("flow", clouds(20, 1))
