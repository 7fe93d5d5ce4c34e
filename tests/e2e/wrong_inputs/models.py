"""Models and their files."""

from tests.e2e.wrong_inputs.row import CONFIG_JSON, FOLDER, MODEL, Wrong, model, train

MODELS: dict[str, Wrong] = {
    "a model that is not there": train("model.path=nowhere", "model.path=nowhere"),
    "a model that is a file": train("model.path=good.yaml", "model.path=good.yaml"),
    "a model that is empty": train("model.path=m", "model.path=m", m=FOLDER),
    "no config.json": model("model.path=m", {"config.json": FOLDER}),
    "config.json is a list": model("model.path=m", {"config.json": "[]"}),
    "config.json is no JSON": model("model.path=m", {"config.json": "{"}),
    "config.json is empty": model("model.path=m", {"config.json": ""}),
    "config.json of bytes": model("model.path=m", {"config.json": b"\xff\xfe\x00"}),
    "config.json names no architecture": model("model.path=m", {"config.json": "{}"}),
    "an unknown architecture": model("model.path=m", {"config.json": CONFIG_JSON | {"model_type": "magic"}}),
    "another size": model("of another shape", {"config.json": CONFIG_JSON | {"intermediate_size": 8}}),
    "more layers than weights": model(
        "tensors are missing: ", {"config.json": CONFIG_JSON | {"num_hidden_layers": 5, "layer_types": None}}
    ),
    "a size of the wrong type": model("model.path=m", {"config.json": CONFIG_JSON | {"hidden_size": "big"}}),
    "heads that do not divide": model(
        "no causal model can be made", {"config.json": CONFIG_JSON | {"num_attention_heads": 0}}
    ),
    "weights cut off": model(
        "weight files (model.safetensors) are incomplete or damaged",
        {"model.safetensors": (MODEL / "model.safetensors").read_bytes()[:-9]},
    ),
    "weights that are text": model(
        "weight files (model.safetensors) are incomplete or damaged", {"model.safetensors": "hello"}
    ),
    "weights that are a directory": model(
        "weight files (model.safetensors) are incomplete or damaged", {"model.safetensors": FOLDER}
    ),
    "no tokenizer": model("no tokenizer can be loaded", {"tokenizer.json": FOLDER}),
    "a tokenizer that is no JSON": model("no tokenizer can be loaded", {"tokenizer.json": "{"}),
    "a tokenizer that is something else": model("no tokenizer can be loaded", {"tokenizer.json": "{}"}),
    "a tokenizer that is a list": model("no tokenizer can be loaded", {"tokenizer.json": "[1]"}),
    "a tokenizer of bytes": model("no tokenizer can be loaded", {"tokenizer.json": b"\xff\xfe\x00"}),
    "tokenizer settings that are a list": model("no tokenizer can be loaded", {"tokenizer_config.json": "[1]"}),
    "end tokens that are a word": model(
        "the end token 'end' is none of", {"generation_config.json": {"eos_token_id": "end"}}
    ),
    "an end token beyond the vocabulary": model(
        "the end token 99999", {"generation_config.json": {"eos_token_id": 99999}}
    ),
    "generation settings that are no JSON": model("generation_config.json", {"generation_config.json": "{"}),
    "a template that raises": model(
        "rows.jsonl:1: the chat template of m raises TemplateError on messages of user: no such role",
        {"chat_template.jinja": "{{ raise_exception('no such\nrole') }}"},
    ),
    "a template that does not parse": model("raises TemplateSyntaxError", {"chat_template.jinja": "{% for %}"}),
    "a template of something undefined": model("raises UndefinedError", {"chat_template.jinja": "{{ nothing.there }}"}),
    "a template that ignores the question": model("leaves out what is asked", {"chat_template.jinja": "Hello."}),
    "a template of bytes": model("no tokenizer can be loaded", {"chat_template.jinja": b"\xff\xfe"}),
    "no layer to adapt": model("model.lora.targets=query", {}, "model.lora.targets=[query]"),
    "a family that the model is not of": train("no vision_language model can be made", "model.family=vision_language"),
    "a model with a long path": train("model.path=aaa", f"model.path={'a' * 5000}"),
}
