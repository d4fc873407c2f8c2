"""zellige.model on the tiny checkpoints of test/model: what they compute is tested in C, here what Python makes of it."""

import json
import os
import pathlib
import tempfile
import threading
import unittest

import zellige
import zellige.core as mx
from zellige.model import Model, Tokenizer, generate, quantize

CASES = pathlib.Path(__file__).parent.parent / "model"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.Ġ"
TEMPLATE = "{% for m in messages %}{{ m.role[0] + '.' + m.content + ' ' }}{% endfor %}{% if loud %}x{% endif %}a."


def write_tokenizer(folder):
    """38 letters and signs, and two tokens that end an answer."""
    added = [dict(id=38 + i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
             for i, c in enumerate(("<end>", "<stop>"))]
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, vocab={c: i for i, c in enumerate(LETTERS)}, merges=[])
    (folder / "tokenizer.json").write_text(json.dumps(dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, post_processor=None,
        pre_tokenizer=dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False),
        decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True), model=model)))
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="Qwen2Tokenizer", eos_token="<end>",
                                                                  chat_template=TEMPLATE)))


class TestModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = Model(CASES / "lm/qwen3")
        cls.expected = mx.load(str(CASES / "lm/qwen3/expected.npz"))

    def test_logits_are_arrays(self):
        ids, logits = self.expected["ids"], self.expected["logits"]
        self.assertTrue(mx.allclose(self.model.logits(ids), logits, atol=1e-5).item())
        self.assertTrue(mx.allclose(self.model.logits(ids[0].tolist()), logits[0], atol=1e-5).item())
        with self.assertRaises(ValueError):
            self.model.logits(ids[None])

    def test_what_it_is_and_its_parameters(self):
        name = "model.norm.weight"
        weight = self.model.parameters()[name]
        self.assertEqual(weight.shape, (16,))
        self.assertEqual(self.model.about["layers"], 3)
        self.assertEqual(self.model.about["eos"], (38, 39))

    def test_a_sequence_draws_the_most_likely_ids(self):
        greedy = self.expected["greedy"][0].tolist()
        prompt = self.expected["ids"].shape[1]
        sequence = self.model.start(greedy[:prompt], chunk=5)
        done = []
        while (count := sequence.prefill()) is not None:
            done.append(count)
        self.assertEqual(done[0], 5)
        drawn = [next(sequence) for _ in range(len(greedy) - prompt)]
        self.assertEqual([i for i, _ in drawn], greedy[prompt:])
        self.assertTrue(all(p <= 0 for _, p in drawn))
        self.assertEqual(len(sequence), len(greedy))
        sequence.trim(prompt)
        sequence.append(greedy[prompt:prompt + 1])
        self.assertEqual(next(sequence)[0], greedy[prompt + 1])

    def test_a_seed_and_a_bias(self):
        def drawn(**how):
            sequence = self.model.start([3, 1, 4], **how)
            return [next(sequence)[0] for _ in range(8)]
        self.assertEqual(drawn(temperature=1, seed=5), drawn(temperature=1, seed=5))
        self.assertEqual(drawn(logit_bias={7: 1000}), [7] * 8)

    def test_what_is_wrong_is_said(self):
        for call, text in ((lambda: Model("/nonexistent"), "/nonexistent/config.json"),
                           (lambda: Tokenizer("/nonexistent"), "/nonexistent"),
                           (lambda: self.model.start([]), "at least one id"),
                           (lambda: self.model.start([40]), "id 40"),
                           (lambda: self.model.start([1 << 40]), "of 32 bits"),
                           (lambda: self.model.start([1], temperature=float("nan")), "temperature"),
                           (lambda: self.model.start([1], logit_bias={99: 1}), "id 99"),
                           (lambda: quantize(CASES / "lm/qwen3", CASES), "is there already")):
            with self.assertRaisesRegex(ValueError, text):
                call()
        for call in (lambda: Model(3), lambda: self.model.start("ab"), lambda: self.model.start([1], logit_bias=[1]),
                     lambda: self.model.start([1], 0.5), lambda: type(self.model.start([1]))()):
            with self.assertRaises(TypeError):
                call()

    def test_one_thread_at_a_time(self):
        sequence = self.model.start([3, 1, 4] * 20)
        wrong = []

        def draw():
            for _ in range(10):
                try:
                    next(sequence)
                except RuntimeError as e:
                    if "another thread" not in str(e):
                        wrong.append(e)
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(sequence), 60)

    def test_a_gguf_file(self):
        model = Model(CASES / "gguf/qwen3.gguf")
        self.assertTrue(mx.allclose(model.logits(self.expected["ids"]), self.expected["logits"], atol=1e-5).item())


class TestTokenizer(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.room.name)
        write_tokenizer(self.folder)
        self.tokenizer = Tokenizer(self.folder)

    def tearDown(self):
        self.room.cleanup()

    def test_text_and_ids(self):
        ids = self.tokenizer.encode("abc d<end>")
        self.assertEqual(ids, [0, 1, 2, 37, 3, 38])
        self.assertEqual(self.tokenizer.decode(ids), "abc d")
        self.assertEqual(self.tokenizer.decode(ids, special=True), "abc d<end>")
        self.assertEqual(len(self.tokenizer), 40)
        self.assertEqual(self.tokenizer.encode(""), [])

    def test_a_conversation(self):
        messages = [{"role": "user", "content": "hi \"ho\""}]
        self.assertEqual(self.tokenizer.chat(messages), 'u.hi "ho" a.')
        self.assertEqual(self.tokenizer.chat(messages, loud=True), 'u.hi "ho" xa.')
        with self.assertRaises(ValueError):
            self.tokenizer.render("{")

    def test_a_reader_outlives_what_it_is_of(self):
        reader = Tokenizer(self.folder).reader()
        self.assertEqual(reader.read(0) + reader.read(1) + reader.end(), "ab")
        with self.assertRaises(ValueError):
            reader.read(-1)

    def test_generate(self):
        model = Model(CASES / "lm/qwen3")
        text = "".join(generate(model, self.tokenizer, "abc", max_tokens=10, logit_bias={38: -1000, 39: -1000}))
        sequence = model.start(self.tokenizer.encode("abc"), logit_bias={38: -1000, 39: -1000})
        self.assertEqual(text, self.tokenizer.decode([next(sequence)[0] for _ in range(10)]))
        self.assertEqual("".join(generate(model, self.tokenizer, "abc", logit_bias={39: 1000})), "")

    def test_ids_that_pad_the_vocabulary_have_no_text(self):
        path = self.folder / "tokenizer.json"
        small = json.loads(path.read_text())
        small["added_tokens"], small["model"]["vocab"] = [], {c: i for i, c in enumerate(LETTERS[:30])}
        path.write_text(json.dumps(small))
        text = generate(Model(CASES / "lm/qwen3"), Tokenizer(self.folder), "abc", max_tokens=3, logit_bias={33: 1000})
        self.assertEqual("".join(text), "")

    def test_a_template_that_cannot_be_parsed_is_said_when_it_is_used(self):
        (self.folder / "chat_template.jinja").write_text("{% include 'x' %}")
        tokenizer = Tokenizer(self.folder)
        self.assertEqual(tokenizer.encode("ab"), [0, 1])
        with self.assertRaisesRegex(ValueError, "no statement 'include'"):
            tokenizer.chat([{"role": "user", "content": "hi"}])

    def test_a_checkpoint_is_copied_into_fewer_bits(self):
        out = self.folder / "out"
        quantize(CASES / "lm/qwen3", out, bits=4)
        self.assertTrue(os.path.exists(out / "config.json"))
        self.assertEqual(Model(out).about["parameters"], Model(CASES / "lm/qwen3").about["parameters"])


class TestPackage(unittest.TestCase):
    def test_it_is_loaded_when_it_is_used(self):
        self.assertIs(zellige.model.Model, Model)


if __name__ == "__main__":
    unittest.main()
