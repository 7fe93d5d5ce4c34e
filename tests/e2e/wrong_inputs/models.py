"""Models and their files. Not covered: each kind of damage (tests/ares/models/test_weights.py)."""

from tests.e2e.wrong_inputs.row import CONFIG_JSON, FOLDER, Content, Wrong, model, train

NO_TOKENIZER = "no tokenizer can be loaded"
FILES: list[tuple[str, Content, str]] = [
    ("config.json", FOLDER, "model.path=m"),
    ("config.json", "[]", "model.path=m"),
    ("config.json", b"\xff\xfe\x00", "model.path=m"),
    ("config.json", CONFIG_JSON | {"hidden_size": "big"}, "model.path=m"),
    ("model.safetensors", FOLDER, "its weight files cannot be read"),
    ("tokenizer.json", FOLDER, NO_TOKENIZER),
    ("tokenizer.json", "{}", NO_TOKENIZER),
    ("tokenizer.json", b"\xff\xfe\x00", NO_TOKENIZER),
    ("tokenizer_config.json", "[1]", NO_TOKENIZER),
    ("generation_config.json", {"eos_token_id": "end"}, "the end token 'end' is none of"),
    ("generation_config.json", "{", "generation_config.json"),
    ("chat_template.jinja", "{{ raise_exception('no such\nrole') }}",
     "rows.jsonl:1: the chat template of m raises TemplateError on messages of user: no such role"),
    ("chat_template.jinja", b"\xff\xfe", NO_TOKENIZER),
]  # fmt: skip
"""What a file of the model is, and what is said."""
MODELS: dict[str, Wrong] = {
    **{f"{name} {number}": model(told, {name: content}) for number, (name, content, told) in enumerate(FILES)},
    "a model that is not there": train("model.path=nowhere", "model.path=nowhere"),
    "a model that is empty": train("model.path=m", "model.path=m", m=FOLDER),
    "a model with a long path": train("model.path=aaa", f"model.path={'a' * 5000}"),
    "no layer to adapt": model("model.lora.targets=query", {}, "model.lora.targets=[query]"),
}
