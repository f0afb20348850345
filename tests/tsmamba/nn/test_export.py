import onnxruntime
import pytest
import torch

from tsmamba.nn import ExportableStep, MambaStack

WIDTH = 12
OPTIONS = {"A_init": "log-uniform", "selection": "gain", "tied_A": True}

NAMES = {"x": {0: "batch"}, "conv": {1: "batch"}, "ssm": {1: "batch"}}


def make(**kwargs):
    return MambaStack(WIDTH, n_layers=2, d_state=4, **kwargs).eval()


@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["published", "all"])
def test_the_states_of_all_blocks_are_two_tensors(options):
    stack = make(**options)
    step = ExportableStep(stack)
    blocks, state = stack.init_state(2), step.init_state(2)
    x = torch.randn(7, 2, WIDTH)
    for x_t in x:
        expected, blocks = stack.step(x_t, blocks)
        y, *state = step(x_t, *state)
        torch.testing.assert_close(y, expected)
    for depth, block in enumerate(blocks):
        torch.testing.assert_close([one[depth] for one in state], list(block))


@pytest.mark.parametrize(
    "kwargs",
    [{"bidirectional": True}, {"attention_at": (1,)}],
    ids=["bidirectional", "hybrid"],
)
def test_a_stack_without_a_step_is_refused(kwargs):
    with pytest.raises(RuntimeError, match="call forward, or build a causal stack"):
        ExportableStep(make(**kwargs))


# From torch's own exporter.
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
@pytest.mark.filterwarnings("ignore:# The axis name. batch will not be used:UserWarning")
@pytest.mark.parametrize(
    ("options", "irregular"), [({}, False), (OPTIONS, True)], ids=["published", "all"]
)
def test_onnx_runtime_gives_the_numbers_of_the_whole_sequence(tmp_path, irregular, options):
    stack = make(**options)
    step = ExportableStep(stack)
    names = NAMES | ({"delta_scale": {0: "batch"}} if irregular else {})
    example = (torch.randn(2, WIDTH), *step.init_state(2), torch.ones(2))
    path = tmp_path / "step.onnx"
    torch.onnx.export(
        step,
        example[: len(names)],
        path,
        dynamo=True,
        verbose=False,
        input_names=list(names),
        output_names=["y", "next_conv", "next_ssm"],
        dynamic_shapes=names,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x, scale = torch.randn(5, 20, WIDTH), torch.rand(5, 20) * 2
    conv, ssm = (state.numpy() for state in step.init_state(5))
    ys = []
    for t in range(20):
        feed = {"x": x[:, t].numpy(), "conv": conv, "ssm": ssm}
        if irregular:
            feed["delta_scale"] = scale[:, t].numpy()
        y, conv, ssm = session.run(None, feed)
        ys.append(torch.from_numpy(y))
    with torch.no_grad():
        expected = stack(x, delta_scale=scale if irregular else None)
    torch.testing.assert_close(torch.stack(ys, dim=1), expected, rtol=0, atol=1e-5)
