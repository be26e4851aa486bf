"""The one row of attention against the library's whole matrix, for each architecture and its variants."""

import pytest
import torch
from transformers import AutoModel, BertConfig, DebertaV2Config, DistilBertConfig, RobertaConfig

from contrastive.config.cell import Lora, Tune
from contrastive.errors import UserError
from contrastive.models import attention
from contrastive.models.tuning import tune

SIZES = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
SIZES |= {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 1}
RELATIVE = SIZES | {"relative_attention": True, "position_biased_input": False, "type_vocab_size": 0}
SHARED = {"position_buckets": 8, "share_att_key": True}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "roberta": RobertaConfig(**SIZES),
    "deberta-v3": DebertaV2Config(**RELATIVE, **SHARED, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"]),
    "own keys for positions": DebertaV2Config(**RELATIVE, max_relative_positions=16, pos_att_type=["p2c", "c2p"]),
    "content to position": DebertaV2Config(**RELATIVE, **SHARED, pos_att_type=["c2p"]),
    "position to content": DebertaV2Config(**RELATIVE, **SHARED, pos_att_type=["p2c"]),
    "no relative attention": DebertaV2Config(**SIZES, relative_attention=False),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("adapters", [False, True], ids=["plain", "LoRA"])
def test_the_row_is_that_of_the_whole_matrix_in_every_block(name: str, adapters: bool):
    torch.manual_seed(0)
    model = AutoModel.from_config(CONFIGS[name], attn_implementation="eager").eval()
    for parameter in model.parameters():  # biases and norms too: none of them may be forgotten
        torch.nn.init.normal_(parameter, std=0.3)
    if adapters:
        model = tune(model, Tune(lora=Lora(r=2)))
        for key, parameter in model.named_parameters():
            if "lora" in key:
                torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(2, 50, (4, 30), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(30) < torch.tensor([30, 17, 3, 2])[:, None]
    ids[~mask] = 1
    with torch.no_grad():
        output = model(input_ids=ids, attention_mask=mask.long(), output_attentions=True, output_hidden_states=True)
    for block, whole in enumerate(output.attentions):
        row = attention.cls_row(model, block, output.hidden_states[block], mask)
        torch.testing.assert_close(row, whole[:, :, 0].mean(1), atol=1e-5, rtol=0)
        assert (row[~mask] == 0).all()


def test_an_architecture_that_is_not_known_is_refused_by_name():
    model = AutoModel.from_config(DistilBertConfig(vocab_size=50, dim=24, n_layers=1, n_heads=3, hidden_dim=48))
    with pytest.raises(UserError, match="not for distilbert"):
        attention.cls_row(model, 0, torch.zeros(1, 3, 24), torch.ones(1, 3, dtype=torch.bool))
