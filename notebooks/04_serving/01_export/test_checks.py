"""The checks of the lesson on exports against right answers and every kind of wrong one."""

import numpy as np
import pytest
from ctrlab.lessons.topics.export import checks
from solved import solved
from wrong_answers import judge, require_told

from ctrlab.lessons import check, notebook, places
from ctrlab.lessons.check import CheckFailed, Unanswered
from ctrlab.lessons.cpp_cell import Source

LESSON = "04_serving/01_export"


fold, ask = solved(LESSON, 1), solved(LESSON, 2)


def of_norms(name, change):
    """The right answer, but for other norms."""

    def answer(kernels, biases, norms):
        return fold(kernels, biases, [change(*norm) for norm in norms])

    answer.__name__ = name
    return answer


def nothing(kernels, biases, norms):
    return kernels, biases


def no_scale(kernels, biases, norms):
    return kernels, fold(kernels, biases, norms)[1]


def no_shift(kernels, biases, norms):
    return fold(kernels, biases, norms)[0], biases


def shift_through_the_new_kernel(kernels, biases, norms):
    right = fold(kernels, biases, norms)
    shifts = [beta - mean * gamma / np.sqrt(variance + checks.EPSILON) for gamma, beta, mean, variance in norms]
    others = [bias + shift @ kernel for bias, shift, kernel in zip(biases[1:], shifts, right[0][1:])]
    return right[0], [biases[0], *(bias.astype(np.float32) for bias in others)]


def in_float64(kernels, biases, norms):
    return [[array.astype(np.float64) for array in arrays] for arrays in fold(kernels, biases, norms)]


def only_the_first(kernels, biases, norms):
    right = fold(kernels[:2], biases[:2], norms[:1])
    return right[0] + kernels[2:], right[1] + biases[2:]


def into_the_layer_before(kernels, biases, norms):
    """As for a normalization in front of the ReLU."""
    out = [], []
    for kernel, bias, (gamma, beta, mean, variance) in zip(kernels, biases, norms):
        scale = gamma / np.sqrt(variance + 1e-3)
        out[0].append(kernel * scale)
        out[1].append((bias - mean) * scale + beta)
    return out[0] + kernels[-1:], out[1] + biases[-1:]


def in_place(kernels, biases, norms):
    right = fold(kernels, biases, norms)
    for old, new in zip(kernels, right[0]):
        old[...] = new
    return right


def one_too_few(kernels, biases, norms):
    right = fold(kernels, biases, norms)
    return right[0][1:], right[1][1:]


def kernels_alone(kernels, biases, norms):
    return fold(kernels, biases, norms)[0]


def as_columns(kernels, biases, norms):
    right = fold(kernels, biases, norms)
    return right[0], [bias[:, None] for bias in right[1]]


def constant(kernels, biases, norms):
    return [np.zeros_like(kernel) for kernel in kernels], [np.zeros_like(bias) for bias in biases]


WRONG = {
    nothing: "`kernels`, layer 1",
    only_the_first: "layer 2",
    into_the_layer_before: "`kernels`, layer 0",
    in_place: "leaves its inputs",
    one_too_few: "one layer for each",
    kernels_alone: "returns kernels, biases|one layer for each",
    as_columns: "shape",
    constant: None,
    of_norms("without_epsilon", lambda gamma, beta, mean, variance: (gamma, beta, mean, variance - 1e-3)): None,
    of_norms("a_larger_epsilon", lambda gamma, beta, mean, variance: (gamma, beta, mean, variance + np.float32(9e-3))): None,
    of_norms("the_variance_itself", lambda gamma, beta, mean, variance: (gamma, beta, mean, variance**2)): None,
    no_scale: None,
    no_shift: "biases",
    of_norms("no_mean", lambda gamma, beta, mean, variance: (gamma, beta, 0 * mean, variance)): "biases",
    shift_through_the_new_kernel: "biases",
    in_float64: "float32",
}
test_right, test_wrong = judge(LESSON, {1: (fold, WRONG)})


def test_the_definition_passes_and_answers_the_same():
    check.run(LESSON, 1, checks.fold)
    for _, kernels, biases, norms in checks.towers(np.random.default_rng(3)):
        x = np.random.default_rng(4).standard_normal((5, kernels[0].shape[0]))
        np.testing.assert_allclose(
            run(x, *checks.fold(kernels, biases, norms)), run(x, kernels, biases, norms), rtol=1e-3, atol=1e-3
        )


def run(x, kernels, biases, norms=()):
    for n, (kernel, bias) in enumerate(zip(kernels, biases)):
        x = np.maximum(x @ kernel + bias, 0)
        if n < len(norms):
            gamma, beta, mean, variance = norms[n]
            x = gamma * (x - mean) / np.sqrt(variance + checks.EPSILON) + beta
    return x


def test_the_solution_passes():
    check.run(LESSON, 2, Source("ask", ask), 1)


def test_the_stub_is_not_judged():
    stubs = notebook.solutions(notebook.learner(notebook.read(places.lesson_path(LESSON))))
    with pytest.raises(Unanswered, match="Exercise 2: write this"):
        check.run(LESSON, 2, Source("ask", stubs[2].partition("\n")[2]))


def test_what_is_no_cell_is_refused():
    with pytest.raises(CheckFailed, match="begins with %%cpp"):
        check.run(LESSON, 2, "ask")


FREE = "ctrlab_processor_free(&response);"
WRITE = "code ? fputs(problem, stdout) : fwrite(response.data, 1, response.size, stdout);"
SAID = "if (code) fputs(problem, stdout); else "
TURN = "turn < 2 && code == CTRLAB_PROCESSOR_UNAVAILABLE"
RESPONSE = "ctrlab_processor_response response = {sizeof response};"
INITIALIZE = "ctrlab_processor_initialize(words[1], nullptr, &processor, problem, sizeof problem);"
WRONG_PROGRAMS = {
    "no_free": (FREE, "", "given back.*0 answers that are still held"),
    "free_twice": (FREE, f"{FREE} {FREE}", "given back, once.*received another"),
    "free_twice_after_a_refusal": (FREE, f"{FREE} if (code) {FREE}", "given back, once.*received another"),
    "free_and_free_its_copy": (FREE, f"auto copy = response; {FREE} ctrlab_processor_free(&copy);", "reads and writes only"),
    "free_by_hand": (FREE, "free(const_cast<char*>(response.data));", "reads and writes only"),
    "free_only_answers_before_an_error": (FREE, f"if (code) {FREE}", "given back"),
    "free_then_write": (WRITE, f"{FREE} {WRITE}", "reads and writes only|(one|request's) line"),
    "use_after_free": (
        WRITE,
        f"const char* data = response.data; size_t n = response.size; {FREE} {SAID}fwrite(data, 1, n, stdout);",
        "after-free",
    ),
    "as_a_string": (WRITE, SAID + "fputs(response.data, stdout);", "overflow"),
    "one_byte_more": (WRITE, SAID + "fwrite(response.data, 1, response.size + 1, stdout);", "overflow|(one|request's) line"),
    "one_byte_less": (WRITE, SAID + "fwrite(response.data, 1, response.size - 1, stdout);", "(one|request's) line"),
    "problem_as_a_format": ("fputs(problem, stdout)", "printf(problem)", "(one|request's) line|reads and writes only"),
    "problem_too_long": ("&response, problem, sizeof problem", "&response, problem, 4000", "overflow"),
    "no_problem": ("&response, problem, sizeof problem", "&response, nullptr, 0", "(one|request's) line"),
    "ends_with_a_refusal": (
        'puts("");',
        'puts(""); if (code) break;',
        "(one|request's) line",
    ),
    "silent_on_refusals": (
        'printf("%d ", code);',
        f'if (code) {{ {FREE} continue; }} printf("%d ", code);',
        "(one|request's) line",
    ),
    "never_again": (TURN, "turn < 1", "(one|request's) line|asked once more"),
    "always_twice": (TURN, "turn < 2", "Only UNAVAILABLE|begins as zeros"),
    "again_after_any_refusal": (TURN, "turn < 2 && code != CTRLAB_PROCESSOR_OK", "Only UNAVAILABLE"),
    "three_times": (TURN, TURN.replace("2", "3"), "Only UNAVAILABLE"),
    "for_ever": (TURN, "true", "Only UNAVAILABLE|begins as zeros"),
    "no_sizes": (RESPONSE, "ctrlab_processor_response response = {};", "how large it is"),
    "response_of_anything": (RESPONSE, f"{RESPONSE} response.owner = &response;", "begins as zeros"),
    "one_response_for_all": (RESPONSE, "static " + RESPONSE, None),
    "a_response_of_what_was_there": (
        RESPONSE,
        RESPONSE.replace(" = {sizeof response}", "") + " response.struct_size = sizeof response;",
        "begins as zeros",
    ),
    "a_model_for_each_request": (RESPONSE, f"{RESPONSE} {INITIALIZE}", "loads the model once"),
    "a_size_of_16_bits": ("body.size(), -1", "static_cast<unsigned short>(body.size()), -1", "as long as its body"),
    "another_format": ("CTRLAB_PROCESSOR_JSON", "CTRLAB_PROCESSOR_INFER_JSON", "what its bytes are"),
    "a_header_of_0": ("body.size(), -1", "body.size(), 0", "header -1"),
    "a_byte_more_of_the_body": ("body.size(), -1", "body.size() + 1, -1", "as long as its body"),
    "another_handle": ("process(processor,", "process(1,", "handle that initialize gave"),
    "no_release": ("return ctrlab_processor_release(processor, problem, sizeof problem);", "return 0;", "is released"),
    "code_of_its_own": ('printf("%d ", code)', 'printf("%d ", code != 0)', "(one|request's) line"),
    "hangs": ('puts("");', 'puts(""); while (code == 2) {}', "The program ends"),
    "no_cpp": (FREE, "this is no C++;", "The cell compiles"),
    "stops_at_a_long_answer": (
        'puts("");',
        'puts(""); if (code == 0 && response.size > 50000) break;',
        "given back|(one|request's) line",
    ),
}
RIGHT_PROGRAMS = ["one_response_for_all"]  # a response that was given back is one of zeros


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_programs(name):
    old, new, says = WRONG_PROGRAMS[name]
    assert ask.count(old) == 1
    source = Source("ask", ask.replace(old, new))
    if name in RIGHT_PROGRAMS:
        check.run(LESSON, 2, source, 1)
        return
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 2, source, 1)
    require_told(refused.value, f"(?s){says}")
