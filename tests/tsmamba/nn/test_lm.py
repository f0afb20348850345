"""The language model: its own laws, and checkpoints of others."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from tsmamba.errors import ModelFileError, ParameterError
from tsmamba.nn import MambaLM
from tsmamba_kernels import use_backend

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
SMALL = {"vocab_size": 37, "d_model": 12, "n_layers": 3, "d_state": 5}
# As mamba_ssm writes them.
MAMBA_SSM = {
    "d_model": 12,
    "n_layer": 3,
    "vocab_size": 37,
    "ssm_cfg": {"d_state": 5},
    "rms_norm": True,
    "residual_in_fp32": True,
    "fused_add_norm": True,
    "pad_vocab_size_multiple": 8,
}
TRANSFORMERS = {
    "model_type": "mamba",
    "vocab_size": 37,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "state_size": 5,
}


def make(**options):
    """Return a model off its initial values, where all tokens are about as likely."""
    lm = MambaLM(**SMALL | options).eval()
    with torch.no_grad():
        for parameter in lm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return lm


def weights_of(lm, embedding="embedding"):
    """Return the weights by foreign names, with the head that files of tied models have, too."""
    names = {"embedding": f"backbone.{embedding}", "stack": "backbone", "lm_head": "lm_head"}
    weights = {}
    for own, x in lm.state_dict().items():
        part, rest = own.split(".", 1)
        weights[f"{names[part]}.{rest}"] = x
    return {"lm_head.weight": lm.embedding.weight.detach().clone()} | weights


def write(folder, lm, config, embedding="embedding"):
    (folder / CONFIG).write_text(json.dumps(config))
    save_file(weights_of(lm, embedding), folder / WEIGHTS)
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    """A folder in the layout of mamba_ssm."""
    return write(tmp_path, make(pad_vocab_size_multiple=8), MAMBA_SSM)


def edit(folder, **changes):
    config = json.loads((folder / CONFIG).read_text()) | changes
    (folder / CONFIG).write_text(json.dumps(config))


def refused(folder, message):
    with pytest.raises(ModelFileError, match=re.escape(message)):
        MambaLM.from_pretrained(folder)


def nbytes(state):
    return sum(part.nbytes for layer in state for part in layer)


# The model


@pytest.mark.parametrize("tied", [True, False])
def test_steps_give_the_logits_of_the_whole_sequence(tied):
    lm, ids = make(tie_embeddings=tied), torch.randint(37, (2, 30))
    whole, state = lm(ids), lm.init_state(2)
    for t in range(30):
        logits, state = lm.step(ids[:, t], state)
        torch.testing.assert_close(logits, whole[:, t], rtol=1e-4, atol=1e-5)


def test_pieces_give_the_logits_of_the_whole_sequence(monkeypatch):
    monkeypatch.setattr("tsmamba.nn.lm.PIECE", 7)
    lm, ids = make(), torch.randint(37, (2, 30))
    whole = lm(ids)
    first, state = lm.prefill(ids[:, :16])
    last, _ = lm.prefill(ids[:, 16:], state)
    torch.testing.assert_close(first, whole[:, 15], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last, whole[:, -1], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_state_does_not_grow():
    lm = make()
    state, sizes = lm.init_state(1), {}
    for n in range(1, 1001):
        _, state = lm.step(torch.tensor([n % 37]), state)
        sizes[n] = nbytes(state)
    assert sizes[10] == sizes[1000] == nbytes(lm.init_state(1)) > 0


def greedy(lm, ids, n):
    """Continue by reading everything anew for each token."""
    for _ in range(n):
        ids = torch.cat([ids, lm(ids)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return ids


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fused", "module"])
def test_generation_is_reading_again_and_again(dtype):
    lm, ids = make().to(dtype), torch.randint(37, (3, 5))
    out = lm.generate(ids, 40)
    assert torch.equal(out, greedy(lm, ids, 40))
    assert out[:, 5:].unique().numel() > 2


def test_generation_without_the_native_kernels_is_the_same():
    lm, ids = make(), torch.randint(37, (2, 5))
    with use_backend("reference"):
        reference = lm.generate(ids, 20)
    assert torch.equal(lm.generate(ids, 20), reference)


def test_a_sequence_alone_is_continued_as_among_others():
    lm, ids = make(), torch.randint(37, (3, 5))
    assert torch.equal(lm.generate(ids, 20)[1:2], lm.generate(ids[1:2], 20))


def test_no_new_tokens_leave_what_was_given():
    ids = torch.randint(37, (2, 5))
    assert torch.equal(make().generate(ids, 0), ids)


def test_draws_follow_the_odds_of_the_likeliest():
    lm, ids = make(), torch.tensor([[3, 1, 4]]).expand(4000, -1)
    random = torch.Generator().manual_seed(0)
    drawn = lm.generate(ids, 1, temperature=0.7, top_k=5, generator=random)[:, -1]
    logits, tokens = lm(ids[:1])[0, -1].topk(5)
    assert set(drawn.tolist()) == set(tokens.tolist())
    share = torch.stack([(drawn == token).float().mean() for token in tokens])
    torch.testing.assert_close(share, (logits / 0.7).softmax(-1), rtol=0, atol=0.03)


def test_draws_follow_the_generator():
    lm, ids = make(), torch.randint(37, (2, 5))
    seeds = (0, 0, 1)
    one, again, other = (
        lm.generate(ids, 20, temperature=1.0, generator=torch.Generator().manual_seed(seed))
        for seed in seeds
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_rows_that_fill_up_the_vocabulary_are_never_drawn():
    lm = MambaLM(5, 8, pad_vocab_size_multiple=8)
    assert lm(torch.tensor([[0]])).shape == (1, 1, 8)
    lm.embedding.weight.data[5:] = 100 * lm.stack(lm.embedding(torch.tensor([[0]])))[0]
    assert lm(torch.tensor([[0]])).argmax() >= 5
    ids = torch.zeros(200, 1, dtype=torch.long)
    assert lm.generate(ids, 2).max() < 5
    assert lm.generate(ids, 2, temperature=100.0).max() < 5


@pytest.mark.parametrize(
    ("ids", "kwargs", "message"),
    [
        (torch.zeros(3, dtype=torch.long), {}, "pass whole numbers of shape (B, L)"),
        (torch.zeros(1, 3), {}, "ids is (1, 3) of torch.float32"),
        (torch.zeros(1, 0, dtype=torch.long), {}, "a token at least"),
        (torch.tensor([[0, 37]]), {}, "ids go from 0 to 37; pass tokens from 0 to 36"),
        (torch.tensor([[-1, 3]]), {}, "ids go from -1 to 3"),
        (torch.tensor([[1]]), {"max_new_tokens": -1}, "max_new_tokens=-1; pass a number from 0"),
        (torch.tensor([[1]]), {"temperature": -0.5}, "temperature=-0.5; pass a number from 0 on"),
        (torch.tensor([[1]]), {"temperature": float("nan")}, "temperature=nan"),
        (torch.tensor([[1]]), {"top_k": 0}, "top_k=0; pass a number from 1 on"),
    ],
    ids=str,
)
def test_what_cannot_be_continued_is_refused(ids, kwargs, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        make().generate(ids, **{"max_new_tokens": 2} | kwargs)


# Checkpoints


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"use_bias": True},
        {"use_conv_bias": False},
        {"time_step_rank": 3},
        {"layer_norm_epsilon": 0.1},
        {"conv_kernel": 2, "expand": 3},
        {"tie_word_embeddings": False},
    ],
    ids=str,
)
def test_logits_and_greedy_tokens_are_those_of_transformers(changes, tmp_path):
    transformers = pytest.importorskip("transformers")
    given = {name: value for name, value in TRANSFORMERS.items() if name != "model_type"}
    config = transformers.MambaConfig(**given | changes, eos_token_id=None)
    peer = transformers.MambaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    peer.save_pretrained(tmp_path)
    lm = MambaLM.from_pretrained(tmp_path)
    assert not lm.training
    ids = torch.randint(37, (2, 23))
    with torch.no_grad():
        torch.testing.assert_close(lm(ids), peer(ids).logits, rtol=1e-5, atol=1e-5)
    seen = torch.ones_like(ids)  # else tokens like its padding are left out
    theirs = peer.generate(ids, attention_mask=seen, max_new_tokens=15, do_sample=False)
    assert torch.equal(lm.generate(ids, 15), theirs)


@pytest.mark.parametrize(
    ("options", "changes", "mixer"),
    [
        ({}, {}, {}),
        ({"bias": True, "conv_bias": False}, {}, {"bias": True, "conv_bias": False}),
        ({"dt_rank": 3, "d_conv": 3}, {}, {"dt_rank": 3, "d_conv": 3, "layer": "Mamba1"}),
        ({"expand": 1}, {}, {"expand": 1, "dt_rank": "auto", "dt_min": 0.01}),
        ({"tie_embeddings": False}, {"tie_embeddings": False}, {}),
        ({"pad_vocab_size_multiple": 16}, {"pad_vocab_size_multiple": 16}, {}),
    ],
    ids=str,
)
def test_checkpoints_of_mamba_ssm_are_read(options, changes, mixer, tmp_path):
    lm = make(**{"pad_vocab_size_multiple": 8} | options)
    config = MAMBA_SSM | changes | {"ssm_cfg": {"d_state": 5} | mixer}
    loaded = MambaLM.from_pretrained(write(tmp_path, lm, config))
    ids = torch.randint(37, (2, 23))
    assert torch.equal(loaded(ids), lm(ids))
    assert loaded.vocab_size == 37
    assert torch.equal(loaded.generate(ids, 5), lm.generate(ids, 5))


@pytest.mark.parametrize("embedding", ["embedding", "embeddings"])
def test_either_name_of_the_embedding_is_read(embedding, tmp_path):
    lm = make()
    loaded = MambaLM.from_pretrained(write(tmp_path, lm, TRANSFORMERS, embedding))
    assert torch.equal(loaded.embedding.weight, lm.embedding.weight)


def test_a_tied_head_need_not_lie_in_the_file(checkpoint):
    whole = MambaLM.from_pretrained(checkpoint)
    weights = load_file(checkpoint / WEIGHTS)
    del weights["lm_head.weight"]
    save_file(weights, checkpoint / WEIGHTS)
    ids = torch.randint(37, (2, 9))
    assert torch.equal(MambaLM.from_pretrained(checkpoint)(ids), whole(ids))


def test_what_was_loaded_can_be_trained_and_is_tied(checkpoint):
    lm = MambaLM.from_pretrained(checkpoint)
    lm(torch.randint(37, (2, 9))).square().sum().backward()
    assert all(parameter.grad is not None for parameter in lm.parameters())
    assert lm.lm_head is None


def test_loading_draws_no_random_numbers(checkpoint):
    before = torch.get_rng_state()
    MambaLM.from_pretrained(checkpoint)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_other_types_are_held_in_float32(dtype, checkpoint):
    weights = {name: x.to(dtype) for name, x in load_file(checkpoint / WEIGHTS).items()}
    save_file(weights, checkpoint / WEIGHTS)
    lm = MambaLM.from_pretrained(checkpoint)
    for name, x in weights_of(lm).items():
        assert x.dtype == torch.float32
        assert torch.equal(x, weights[name].float())


def split_in_two(folder):
    """Put the weights of a checkpoint into two files under an index."""
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    placed = {}
    for number in (0, 1):
        names = list(weights)[number::2]
        save_file({name: weights[name] for name in names}, folder / f"part-{number}.safetensors")
        placed |= dict.fromkeys(names, f"part-{number}.safetensors")
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": placed}))


def test_parts_are_the_whole(checkpoint):
    whole, ids = MambaLM.from_pretrained(checkpoint), torch.randint(37, (2, 9))
    split_in_two(checkpoint)
    assert torch.equal(MambaLM.from_pretrained(checkpoint)(ids), whole(ids))


def test_a_part_elsewhere_or_missing_is_refused(checkpoint, tmp_path):
    split_in_two(checkpoint)
    placed = json.loads((checkpoint / INDEX).read_text())["weight_map"]
    elsewhere = {"weight_map": dict.fromkeys(placed, "../part-0.safetensors")}
    (checkpoint / INDEX).write_text(json.dumps(elsewhere))
    refused(checkpoint, "names 'part-0.safetensors', which is no file beside it")
    (checkpoint / INDEX).write_text(json.dumps({"weight_map": placed}))
    (checkpoint / "part-1.safetensors").unlink()
    refused(checkpoint, "names 'part-1.safetensors', which is no file beside it")
    (checkpoint / INDEX).write_text("{}")
    refused(checkpoint, "lacks 32 of 32 weights")


def test_a_pickle_is_refused_with_the_way_to_convert_it(checkpoint, monkeypatch):
    ids = torch.randint(37, (2, 9))
    expected = MambaLM.from_pretrained(checkpoint)(ids)
    torch.save(load_file(checkpoint / WEIGHTS), checkpoint / "pytorch_model.bin")
    (checkpoint / WEIGHTS).unlink()
    with pytest.raises(ModelFileError, match="a pickle, which can run any code") as said:
        MambaLM.from_pretrained(checkpoint)
    _, advice = str(said.value).split("convert it once: ")
    import safetensors.torch

    monkeypatch.chdir(checkpoint)
    exec(advice.replace(", then ", "\n"), {"torch": torch, "safetensors": safetensors})
    assert torch.equal(MambaLM.from_pretrained(checkpoint)(ids), expected)


@pytest.mark.parametrize("kind", ["mamba2", "falcon_mamba", "jamba", None])
def test_models_of_other_kinds_are_refused(kind, checkpoint):
    edit(checkpoint, model_type=kind)
    refused(checkpoint, f"has model_type {kind!r}; MambaLM reads 'mamba'")


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (MAMBA_SSM, {"ssm_cfg": {"layer": "Mamba2"}}, 'layer = "Mamba2"; MambaLM takes "Mamba1"'),
        (MAMBA_SSM, {"ssm_cfg": {"headdim": 64}}, "ssm_cfg' sets 'headdim', which MambaLM"),
        (MAMBA_SSM, {"ssm_cfg": []}, "ssm_cfg = []; MambaLM takes an object there"),
        (MAMBA_SSM, {"rms_norm": False}, "rms_norm = false; MambaLM takes true there"),
        (MAMBA_SSM, {"d_intermediate": 64}, "d_intermediate = 64; MambaLM takes 0 there"),
        (MAMBA_SSM, {"attn_layer_idx": [1]}, "attn_layer_idx = [1]; MambaLM takes [] there"),
        (MAMBA_SSM, {"norm_epsilon": 0.1}, "sets 'norm_epsilon', which MambaLM does not know"),
        (MAMBA_SSM, {"d_model": "12"}, 'd_model = "12"; MambaLM takes a whole number from 1 on'),
        (MAMBA_SSM, {"n_layer": True}, "n_layer = true; MambaLM takes a whole number from 1 on"),
        (TRANSFORMERS, {"hidden_act": "gelu"}, 'hidden_act = "gelu"; MambaLM takes "silu" or'),
        (TRANSFORMERS, {"expand": 1.5}, "expand = 1.5; MambaLM takes a whole number from 1 on"),
        (TRANSFORMERS, {"use_bias": 1}, "use_bias = 1; MambaLM takes true or false there"),
        (TRANSFORMERS, {"layer_norm_epsilon": 0}, "layer_norm_epsilon = 0; MambaLM takes a number"),
        (TRANSFORMERS, {"quantization_config": {"bits": 4}}, "quantization_config = "),
        (TRANSFORMERS, {"use_bias": True}, "lacks 6 of 38 weights, 'backbone.layers.0.mixer.in_"),
        (TRANSFORMERS, {"use_conv_bias": False}, "conv1d.bias', of which the network has none"),
        (TRANSFORMERS, {"num_hidden_layers": 4}, "lacks 10 of 42 weights, 'backbone.layers.3."),
        (TRANSFORMERS, {"vocab_size": 40}, "has the shape (37, 12), and by config.json it is (40,"),
        (TRANSFORMERS, {"time_step_rank": 2}, "shape (24, 1), and by config.json it is (24, 2)"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_change_numbers_are_refused(config, changes, message, tmp_path):
    refused(write(tmp_path, make(), config | changes), message)


def test_a_head_that_is_not_tied_after_all_is_refused(checkpoint):
    weights = load_file(checkpoint / WEIGHTS)
    weights["lm_head.weight"] = weights["lm_head.weight"] + 1
    save_file(weights, checkpoint / WEIGHTS)
    refused(checkpoint, "has a 'lm_head.weight' of its own, while config.json ties it")


def test_quantised_weights_are_refused(checkpoint):
    weights = load_file(checkpoint / WEIGHTS)
    weights["backbone.norm_f.weight"] = torch.ones(12, dtype=torch.int8)
    save_file(weights, checkpoint / WEIGHTS)
    refused(checkpoint, "is of type I8; MambaLM reads F64, F32, F16, BF16")


def test_damaged_files_are_refused(checkpoint):
    whole = (checkpoint / WEIGHTS).read_bytes()
    for part in (whole[:-9], whole[:5], b""):
        (checkpoint / WEIGHTS).write_bytes(part)
        refused(checkpoint, "is not a whole safetensors file")
    (checkpoint / WEIGHTS).unlink()
    refused(checkpoint, "holds neither model.safetensors nor model.safetensors.index.json")
    (checkpoint / CONFIG).write_text("{")
    refused(checkpoint, "config.json' cannot be read")
    (checkpoint / CONFIG).write_text("[]")
    refused(checkpoint, "config.json' holds no JSON object")
    (checkpoint / CONFIG).unlink()
    refused(checkpoint, "config.json' cannot be read")


def test_a_name_of_a_hub_is_refused():
    refused("state-spaces/mamba-130m", "pass a local one that holds config.json")
