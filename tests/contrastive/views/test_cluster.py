"""Cluster views: centres are differentiable means of their members, the same for a sample alone and in a batch."""

import torch
import torch.nn.functional as F

from contrastive.views.cluster import assign, centres, cluster
from tests.contrastive.views.conftest import batch_of


def points(samples: int = 4, count: int = 12, size: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randn(samples, count, size, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(count) < torch.tensor([12, 7, 2, 1][:samples])[:, None]
    return F.normalize(drawn, dim=-1), mask


def test_two_far_groups_are_found_and_a_centre_is_the_mean_of_its_members():
    vectors = torch.tensor([[[0.0, 0], [10, 0], [0, 1], [10, 1], [99, 99]]])
    group = centres(vectors, torch.tensor([[True] * 4 + [False]]), 2)
    assert sorted(group.vectors[0].tolist()) == [[0.0, 0.5], [10.0, 0.5]] and group.mask.all()


def test_a_centre_without_members_does_not_exist():
    vectors, mask = points()
    assert centres(vectors, mask, 3).mask.sum(1).tolist() == [3, 3, 2, 1]


def test_a_sample_alone_has_the_centres_that_it_has_in_the_batch():
    vectors, mask = points()
    together = centres(vectors, mask, 3)
    for i in range(len(vectors)):
        alone = centres(vectors[i : i + 1], mask[i : i + 1], 3)
        torch.testing.assert_close(alone.vectors[0], together.vectors[i])


def test_lloyd_has_converged():
    """Each member's nearest centre is its own."""
    vectors, mask = points()
    member = assign(vectors, mask, 3).argmax(-1)
    group = centres(vectors, mask, 3)
    distance = torch.cdist(vectors, group.vectors).masked_fill(~group.mask[:, None], torch.inf)
    assert torch.equal(distance.argmin(-1)[mask], member[mask])


def test_the_gradient_is_shared_among_the_members_and_nobody_else():
    vectors, mask = points(samples=2)
    vectors.requires_grad_()
    group, member = centres(vectors, mask, 2), assign(vectors.detach(), mask, 2)
    group.vectors[:, 0].sum().backward()
    expected = (member[..., 0] / member[..., 0].sum(1, keepdim=True))[..., None].expand_as(vectors)
    torch.testing.assert_close(vectors.grad, expected)


def test_the_points_are_the_normalised_tokens_of_the_text(known):
    batch, tokens = batch_of(3), torch.tensor([[[9.0, 9], [3, 0], [5, 0], [0, 2], [9, 9]]])
    attention = torch.tensor([[0.0, 0.3, 0.2, 0.1, 0.4]])
    group = cluster(lambda _: known(batch, [tokens], [attention]), batch, k=3, clusters=2).groups[0]
    assert sorted(group.vectors[0].tolist()) == [[0.0, 1.0], [1.0, 0.0]]
