//! A BERT of the same kind as the real one and a few kilobytes small.

use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;

pub const LAYERS: usize = 2;
pub const HIDDEN: usize = 32;
pub const HEADS: usize = 4;
const WIDE: usize = 64;
const POSITIONS: usize = 300;
/// Large enough that a test fails if it is left out.
pub const EPS: f64 = 0.01;
const VOCABULARY: &str = "[PAD] [UNK] [CLS] [SEP] [MASK] the a of to in is was not and cat dog bird fish tree house \
    run walk sleep eat cafe naive happi un ##happi ##ly ##ness ##s ##ing ##ed ##er red blue green old new big small \
    river road deploy server disk log night day week year one two three sep . , ! ? & [ ] 猫";

pub struct Tiny {
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
    pub config: String,
    pub vocabulary: String,
}

impl Tiny {
    pub fn new() -> Tiny {
        let pieces = VOCABULARY.split_whitespace().count();
        let config = format!(
            r#"{{"model_type": "bert", "hidden_act": "gelu", "vocab_size": {pieces}, "hidden_size": {HIDDEN},
            "num_hidden_layers": {LAYERS}, "num_attention_heads": {HEADS}, "intermediate_size": {WIDE},
            "max_position_embeddings": {POSITIONS}, "type_vocab_size": 2, "layer_norm_eps": {EPS}}}"#
        );
        let vocabulary = VOCABULARY.split_whitespace().map(|piece| format!("{piece}\n")).collect();
        let mut tiny = Tiny { tensors: BTreeMap::new(), config, vocabulary };
        let mut seed = 1;
        let mut add = |name: String, shape: &[usize], middle: f32, spread: f32| {
            let many = shape.iter().product();
            let values = (0..many).map(|_| middle + spread * pseudo_random(&mut seed)).collect();
            tiny.tensors.insert(name, (shape.to_vec(), values));
        };
        for (name, rows) in [("word", pieces), ("position", POSITIONS), ("token_type", 2)] {
            add(format!("embeddings.{name}_embeddings.weight"), &[rows, HIDDEN], 0.0, 1.0);
        }
        let linear = |name: &str, from: usize, to: usize| (name.to_owned(), vec![to, from]);
        let mut norms = vec!["embeddings".to_owned()];
        for layer in 0..LAYERS {
            let name = format!("encoder.layer.{layer}");
            norms.extend([format!("{name}.attention.output"), format!("{name}.output")]);
            for (part, shape) in [
                linear("attention.self.query", HIDDEN, HIDDEN),
                linear("attention.self.key", HIDDEN, HIDDEN),
                linear("attention.self.value", HIDDEN, HIDDEN),
                linear("attention.output.dense", HIDDEN, HIDDEN),
                linear("intermediate.dense", HIDDEN, WIDE),
                linear("output.dense", WIDE, HIDDEN),
            ] {
                add(format!("{name}.{part}.weight"), &shape, 0.0, 0.4);
                add(format!("{name}.{part}.bias"), &shape[..1], 0.0, 0.3);
            }
        }
        for name in norms {
            add(format!("{name}.LayerNorm.weight"), &[HIDDEN], 1.0, 0.3);
            add(format!("{name}.LayerNorm.bias"), &[HIDDEN], 0.0, 0.3);
        }
        tiny
    }

    /// The file: eight bytes with the length of a JSON header, the header, the numbers.
    pub fn safetensors(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        let mut data = Vec::new();
        for (name, (shape, values)) in &self.tensors {
            let from = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let to = data.len();
            entries.push(format!(
                r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{from},{to}]}}"#
            ));
        }
        let header = format!("{{{}}}", entries.join(","));
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
    }

    pub fn write(&self) -> TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in [
            ("model.safetensors", self.safetensors()),
            ("vocab.txt", self.vocabulary.clone().into_bytes()),
            ("config.json", self.config.clone().into_bytes()),
        ] {
            fs::write(dir.path().join(name), bytes).expect("the folder can be written");
        }
        dir
    }
}

fn pseudo_random(seed: &mut u64) -> f32 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}
