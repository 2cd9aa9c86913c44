//! The sentence encoder compared with a second implementation: a BERT written out simply in f64, over a small
//! model made here.

mod tiny;

use std::fs;

use kenning_retrieval::minilm::{MiniLm, MiniLmError};
use sha2::{Digest, Sha256};

use tiny::{EPS, HEADS, HIDDEN, LAYERS, Tiny};

/// The rounding errors of f32, with some margin; a wrong formula, such as the approximate GELU, differs by
/// far more.
const TOLERANCE: f64 = 1e-5;

impl Tiny {
    fn load(&self) -> MiniLm {
        MiniLm::load(self.write().path()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The reference vector of these pieces between `[CLS]` and `[SEP]`.
    fn reference(&self, pieces: &str, gelu: fn(f64) -> f64) -> Vec<f64> {
        let ids: Vec<usize> = format!("[CLS] {pieces} [SEP]")
            .split_whitespace()
            .map(|piece| self.vocabulary.lines().position(|line| line == piece).expect("a known piece"))
            .collect();
        let row = |name: &str, row: usize| -> Vec<f64> {
            let values = &self.tensors[&format!("embeddings.{name}_embeddings.weight")].1;
            values[row * HIDDEN..][..HIDDEN].iter().map(|value| f64::from(*value)).collect()
        };
        let mut rows: Vec<Vec<f64>> = (0..ids.len())
            .map(|at| add(&add(&row("word", ids[at]), &row("position", at)), &row("token_type", 0)))
            .map(|row| self.norm("embeddings", &row))
            .collect();
        for layer in 0..LAYERS {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let attended = self.attention(&name("attention.self"), &rows);
            for (row, attended) in rows.iter_mut().zip(attended) {
                let dense = self.linear(&name("attention.output.dense"), &attended);
                *row = self.norm(&name("attention.output"), &add(&dense, row));
                let wide = self.linear(&name("intermediate.dense"), row).into_iter().map(gelu).collect();
                let dense = self.linear(&name("output.dense"), &wide);
                *row = self.norm(&name("output"), &add(&dense, row));
            }
        }
        let sum = rows.iter().fold(vec![0.0; HIDDEN], |sum, row| add(&sum, row));
        let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        sum.iter().map(|value| value / length).collect()
    }

    fn attention(&self, name: &str, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let part = |part: &str| -> Vec<Vec<f64>> {
            rows.iter().map(|row| self.linear(&format!("{name}.{part}"), row)).collect()
        };
        let (queries, keys, values) = (part("query"), part("key"), part("value"));
        let width = HIDDEN / HEADS;
        let mut attended = vec![vec![0.0; HIDDEN]; rows.len()];
        for head in 0..HEADS {
            let columns = head * width..(head + 1) * width;
            for (query, attended) in queries.iter().zip(&mut attended) {
                let score = |key: &Vec<f64>| -> f64 {
                    columns.clone().map(|column| query[column] * key[column]).sum::<f64>()
                        / (width as f64).sqrt()
                };
                let shares: Vec<f64> = keys.iter().map(|key| score(key).exp()).collect();
                let whole: f64 = shares.iter().sum();
                for (share, value) in shares.iter().zip(&values) {
                    columns.clone().for_each(|column| attended[column] += share / whole * value[column]);
                }
            }
        }
        attended
    }

    fn linear(&self, name: &str, row: &Vec<f64>) -> Vec<f64> {
        let weight = &self.tensors[&format!("{name}.weight")].1;
        let bias = &self.tensors[&format!("{name}.bias")].1;
        let product = |weight: &[f32]| -> f64 {
            weight.iter().zip(row).map(|(weight, value)| f64::from(*weight) * value).sum()
        };
        weight.chunks(row.len()).zip(bias).map(|(weight, bias)| product(weight) + f64::from(*bias)).collect()
    }

    fn norm(&self, name: &str, row: &[f64]) -> Vec<f64> {
        let weight = &self.tensors[&format!("{name}.LayerNorm.weight")].1;
        let bias = &self.tensors[&format!("{name}.LayerNorm.bias")].1;
        let mean = row.iter().sum::<f64>() / HIDDEN as f64;
        let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / HIDDEN as f64;
        let scale = 1.0 / (variance + EPS).sqrt();
        let each = |((value, weight), bias): ((&f64, &f32), &f32)| {
            (value - mean) * scale * f64::from(*weight) + f64::from(*bias)
        };
        row.iter().zip(weight).zip(bias).map(each).collect()
    }
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / 2f64.sqrt()))
}

fn gelu_by_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// The series of erf without alternating signs, to full precision.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()
}

fn furthest(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).fold(0.0, |most, (a, b)| (f64::from(*a) - b).abs().max(most))
}

#[test]
fn vectors_are_those_of_a_plainly_written_bert() {
    let tiny = Tiny::new();
    let model = tiny.load();
    let too_long = "a".repeat(101);
    // One batch of texts of many lengths: a wrong mask or a wrong position makes this test fail.
    let cases = [
        ("The cat sleeps.", "the cat sleep ##s ."),
        ("", ""),
        ("Cats, DOGS\t& birds!", "cat ##s , dog ##s & bird ##s !"),
        ("Café naïve", "cafe naive"),
        ("unhappily happiness", "un ##happi ##ly happi ##ness"),
        ("is the zebra in the house?", "is the [UNK] in the house ?"),
        ("catx dogs", "[UNK] dog ##s"),
        (&too_long, "[UNK]"),
        ("猫cat", "猫 cat"),
        ("a text cannot forge a [SEP]", "a [UNK] [UNK] [UNK] a [ sep ]"),
        (
            "the old server was not deployed in the night and the disk of the new server is small",
            "the old server was not deploy ##ed in the night and the disk of the new server is small",
        ),
    ];
    let texts = cases.map(|(text, _)| text);
    let vectors = model.embed(&texts).expect("vectors");
    assert_eq!(vectors.len(), texts.len());
    assert_eq!(model.dim(), HIDDEN);
    for ((text, pieces), vector) in cases.iter().zip(&vectors) {
        let off = furthest(vector, &tiny.reference(pieces, gelu));
        assert!(off < TOLERANCE, "{text:?} is off by {off}");
    }
}

#[test]
fn the_comparison_would_see_the_approximate_gelu() {
    let tiny = Tiny::new();
    let vector = tiny.load().embed(&["the cat sleeps ."]).expect("a vector").remove(0);
    let off = furthest(&vector, &tiny.reference("the cat sleep ##s .", gelu_by_tanh));
    assert!(off > 5.0 * TOLERANCE, "{off}");
}

#[test]
fn a_text_does_not_see_its_neighbours() {
    let model = Tiny::new().load();
    let long = "the river and the road ".repeat(60);
    // More texts than one batch has.
    let texts: Vec<String> = (0..50).map(|many| "old house, ".repeat(many % 7) + "big tree").collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts.insert(3, &long);
    let together = model.embed(&texts).expect("vectors");
    for (text, vector) in texts.iter().zip(&together) {
        let alone = model.embed(&[text]).expect("a vector").remove(0);
        let off = vector.iter().zip(&alone).fold(0f32, |most, (a, b)| (a - b).abs().max(most));
        assert!(off < 1e-5, "{text:?} is off by {off}");
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    assert_eq!(model.embed(&[]).expect("nothing"), Vec::<Vec<f32>>::new());
}

#[test]
fn a_long_text_is_cut_at_256_tokens() {
    let tiny = Tiny::new();
    let model = tiny.load();
    let kept = "dogs ".repeat(127);
    // A word may be cut in two: 253 pieces, then the first of the two pieces of `cats`.
    let inside = "a ".to_owned() + &"dogs ".repeat(126) + "cats";
    let texts = [kept.clone() + "the river", kept.clone(), inside];
    let vectors = model.embed(&texts.each_ref().map(String::as_str)).expect("vectors");
    let pieces = "dog ##s ".repeat(127);
    assert!(furthest(&vectors[0], &tiny.reference(&pieces, gelu)) < TOLERANCE);
    assert_eq!(vectors[0], vectors[1]);
    let pieces = "a ".to_owned() + &"dog ##s ".repeat(126) + "cat";
    assert!(furthest(&vectors[2], &tiny.reference(&pieces, gelu)) < TOLERANCE);
}

#[test]
fn a_model_with_fewer_positions_cuts_earlier() {
    let mut tiny = Tiny::new();
    tiny.config = tiny.config.replace("\"max_position_embeddings\": 300", "\"max_position_embeddings\": 8");
    let positions = tiny.tensors.get_mut("embeddings.position_embeddings.weight").expect("positions");
    positions.0[0] = 8;
    positions.1.truncate(8 * HIDDEN);
    let vector = tiny.load().embed(&[&"cat ".repeat(20)]).expect("a vector").remove(0);
    assert!(furthest(&vector, &tiny.reference("cat cat cat cat cat cat", gelu)) < TOLERANCE);
}

#[test]
fn the_encoder_may_have_a_prefix() {
    let plain = Tiny::new();
    let mut prefixed = Tiny::new();
    prefixed.tensors = plain.tensors.iter().map(|(name, it)| (format!("bert.{name}"), it.clone())).collect();
    prefixed.tensors.insert("cls.predictions.bias".to_owned(), (vec![1], vec![0.0]));
    let texts = ["two birds in a tree"];
    assert_eq!(
        plain.load().embed(&texts).expect("a vector"),
        prefixed.load().embed(&texts).expect("a vector")
    );
}

#[test]
fn the_identity_is_that_of_weights_and_vocabulary() {
    let mut tiny = Tiny::new();
    let hash = Sha256::digest([tiny.safetensors().as_slice(), tiny.vocabulary.as_bytes()].concat());
    let before = tiny.load();
    assert_eq!(before.identity(), data_encoding::HEXLOWER.encode(&hash));
    tiny.vocabulary = tiny.vocabulary.replace("river\nroad\n", "road\nriver\n");
    assert_ne!(tiny.load().identity(), before.identity());
}

#[test]
fn it_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<MiniLm>();
    shared::<MiniLmError>();
}

#[test]
fn a_missing_file_is_named() {
    for name in ["model.safetensors", "vocab.txt", "config.json"] {
        let dir = Tiny::new().write();
        fs::remove_file(dir.path().join(name)).expect("the file is there");
        let message = MiniLm::load(dir.path()).err().expect("a refusal").to_string();
        let start = format!("cannot read `{}`: ", dir.path().join(name).display());
        assert!(message.starts_with(&start), "{message}");
        let end = "; a folder with model.safetensors, vocab.txt and config.json is needed";
        assert!(message.ends_with(end), "{message}");
    }
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let whole = Tiny::new().safetensors();
    for kept in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
        let dir = Tiny::new().write();
        fs::write(dir.path().join("model.safetensors"), &whole[..kept]).expect("the folder can be written");
        let message = MiniLm::load(dir.path()).err().expect("a refusal").to_string();
        assert!(message.contains("model.safetensors` does not have the weights"), "{message}");
        assert!(
            message.contains("not a whole safetensors file") && message.contains("fetch it again"),
            "{message}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_model_is_said() {
    let check = |spoil: fn(&mut Tiny), expected: &str| {
        let mut tiny = Tiny::new();
        spoil(&mut tiny);
        let message = MiniLm::load(tiny.write().path()).err().expect(expected).to_string();
        assert!(message.ends_with(expected), "{message}");
    };
    let other = "config.json` does not describe a model that can be used (a BERT such as all-MiniLM-L6-v2): ";
    check(
        |tiny| tiny.config = tiny.config.replace("bert", "mpnet"),
        &format!("{other}`model_type` is `mpnet`, not `bert`"),
    );
    check(
        |tiny| tiny.config = "{}".to_owned(),
        &format!("{other}missing field `model_type` at line 1 column 2"),
    );
    check(
        |tiny| tiny.config = tiny.config.replace("gelu", "gelu_new"),
        "`hidden_act` is `gelu_new`, not `gelu`",
    );
    check(
        |tiny| {
            tiny.config = tiny
                .config
                .replace("\"model_type\"", "\"position_embedding_type\": \"relative_key\", \"model_type\"")
        },
        "`position_embedding_type` is `relative_key`, not `absolute`",
    );
    check(
        |tiny| tiny.config = tiny.config.replace("heads\": 4", "heads\": 5"),
        "`hidden_size` 32 cannot be shared by 5 `num_attention_heads`",
    );
    check(
        |tiny| tiny.config = tiny.config.replace("embeddings\": 300", "embeddings\": 2"),
        "2 `max_position_embeddings` leave no room for a word",
    );
    check(
        |tiny| tiny.config = tiny.config.replace("hidden_size\": 32", "hidden_size\": 64"),
        "`embeddings.word_embeddings.weight` is f32 [64, 32], and config.json asks for f32 [64, 64]",
    );
    check(
        |tiny| tiny.config = tiny.config.replace("layers\": 2", "layers\": 3"),
        "model.safetensors` does not have the weights of this model: it has no `encoder.layer.2.attention.self.query.weight`",
    );
    check(
        |tiny| tiny.config = tiny.config.replace("layers\": 2", "layers\": 1"),
        "it has more layers than config.json says",
    );
    check(
        |tiny| tiny.vocabulary.push_str("more\n"),
        "vocab.txt` is not the vocabulary of this model: it has 65 lines, and config.json says 64",
    );
    check(|tiny| tiny.vocabulary = tiny.vocabulary.replace("[SEP]", "[sep]"), "it has no line `[SEP]`");
}

#[test]
fn whole_numbers_are_no_weights() {
    let dir = Tiny::new().write();
    let mut bytes = Tiny::new().safetensors();
    while let Some(at) = bytes.windows(5).position(|window| window == b"\"F32\"") {
        bytes[at + 1] = b'U';
    }
    fs::write(dir.path().join("model.safetensors"), bytes).expect("the folder can be written");
    let message = MiniLm::load(dir.path()).err().expect("a refusal").to_string();
    let expected =
        "`embeddings.word_embeddings.weight` is u32 [64, 32], and config.json asks for f32 [64, 32]";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn weights_that_are_no_numbers_give_no_vector() {
    let mut tiny = Tiny::new();
    tiny.tensors.get_mut("encoder.layer.1.output.dense.bias").expect("a bias").1[0] = f32::NAN;
    let message = tiny.load().embed(&["a cat"]).expect_err("a refusal").to_string();
    assert_eq!(message, "the sentence encoder failed: the weights give a vector without a direction");
}
