//! Vectors from a sentence encoder: all-MiniLM-L6-v2, or another uncased BERT of its kind, whose files the user supplies.
//! It is slower than the table of `embed`, and better with paraphrases. `embedder` decides which of the two is used.

use std::collections::HashMap;
use std::f32::consts::FRAC_1_SQRT_2;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use candle_nn::{LayerNorm, Linear, Module, ops};
use data_encoding::HEXLOWER;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::wordpiece::{each_word, pieces};

const WEIGHTS_FILE: &str = "model.safetensors";
const VOCABULARY_FILE: &str = "vocab.txt";
const CONFIG_FILE: &str = "config.json";

/// The number of tokens after which sentence-transformers cuts a text for this model, `[CLS]` and `[SEP]` included.
const TOKENS_MAX: usize = 256;
/// How many texts go through the layers together. More would not be faster and would need more memory.
const BATCH_TEXTS_MAX: usize = 16;
/// The value that BERT was trained with; older configurations do not have it.
const LAYER_NORM_EPS: f64 = 1e-12;

#[derive(Debug, thiserror::Error)]
pub enum MiniLmError {
    #[error(
        "cannot read `{}`: {reason}; a folder with {WEIGHTS_FILE}, {VOCABULARY_FILE} and {CONFIG_FILE} is needed",
        path.display()
    )]
    Read { path: PathBuf, reason: String },
    #[error("`{}` does not describe a model that can be used (a BERT such as all-MiniLM-L6-v2): {reason}", path.display())]
    Config { path: PathBuf, reason: String },
    #[error("`{}` is not the vocabulary of this model: {reason}", path.display())]
    Vocabulary { path: PathBuf, reason: String },
    #[error("`{}` does not have the weights of this model: {reason}", path.display())]
    Weights { path: PathBuf, reason: String },
    #[error("the sentence encoder failed: {reason}")]
    Encode { reason: String },
}

pub struct MiniLm {
    identity: String,
    vocabulary: Vocabulary,
    bert: Bert,
    tokens_max: usize,
}

impl MiniLm {
    /// `dir` has model.safetensors, vocab.txt and config.json.
    pub fn load(dir: &Path) -> Result<MiniLm, MiniLmError> {
        let config = Config::read(dir.join(CONFIG_FILE))?;
        let vocabulary_bytes = read(&dir.join(VOCABULARY_FILE))?;
        let vocabulary = Vocabulary::parse(dir.join(VOCABULARY_FILE), &vocabulary_bytes, config.vocab_size)?;
        let weights_bytes = read(&dir.join(WEIGHTS_FILE))?;
        let mut weights = Weights::parse(dir.join(WEIGHTS_FILE), &weights_bytes)?;
        let tokens_max = TOKENS_MAX.min(config.max_position_embeddings);
        let bert = Bert::new(&config, tokens_max, &mut weights)?;
        // A safetensors file contains its own length, so no other pair of files gives the same bytes when joined.
        let identity = Sha256::new().chain_update(&weights_bytes).chain_update(&vocabulary_bytes).finalize();
        Ok(MiniLm { identity: HEXLOWER.encode(&identity), vocabulary, bert, tokens_max })
    }

    /// The SHA-256 of weights and vocabulary. It keeps vectors of different models apart.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The length of every vector.
    pub fn dim(&self) -> usize {
        self.bert.hidden
    }

    /// One vector of length 1 for each text, in the order of the texts. Text after the first 256 tokens is ignored.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, MiniLmError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH_TEXTS_MAX) {
            let batch: Vec<Vec<u32>> =
                batch.iter().map(|text| self.vocabulary.ids(text, self.tokens_max)).collect();
            vectors.extend(self.bert.means(&batch).map_err(failed)?);
        }
        vectors.iter_mut().try_for_each(|vector| normalise(vector))?;
        Ok(vectors)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, MiniLmError> {
    std::fs::read(path)
        .map_err(|error| MiniLmError::Read { path: path.to_owned(), reason: error.to_string() })
}

fn failed(error: candle_core::Error) -> MiniLmError {
    MiniLmError::Encode { reason: error.to_string() }
}

fn normalise(vector: &mut [f32]) -> Result<(), MiniLmError> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    // Every comparison with such a vector would be wrong without an error.
    if !length.is_finite() || length == 0.0 {
        return Err(MiniLmError::Encode { reason: "the weights give a vector without a direction".into() });
    }
    vector.iter_mut().for_each(|value| *value /= length);
    Ok(())
}

#[derive(Deserialize)]
struct Config {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    hidden_act: String,
    position_embedding_type: Option<String>,
    layer_norm_eps: Option<f64>,
}

impl Config {
    fn read(path: PathBuf) -> Result<Config, MiniLmError> {
        let bytes = read(&path)?;
        let parsed = serde_json::from_slice::<Config>(&bytes).map_err(|error| error.to_string());
        parsed
            .and_then(|config| config.check().map(|()| config))
            .map_err(|reason| MiniLmError::Config { path, reason })
    }

    /// Refuses configurations with which this code would make wrong vectors without an error.
    fn check(&self) -> Result<(), String> {
        let position = self.position_embedding_type.as_deref().unwrap_or("absolute");
        for (key, found, expected) in [
            ("model_type", self.model_type.as_str(), "bert"),
            ("hidden_act", self.hidden_act.as_str(), "gelu"),
            ("position_embedding_type", position, "absolute"),
        ] {
            if found != expected {
                return Err(format!("`{key}` is `{found}`, not `{expected}`"));
            }
        }
        let (hidden, heads) = (self.hidden_size, self.num_attention_heads);
        if hidden == 0 || heads == 0 || !hidden.is_multiple_of(heads) {
            return Err(format!("`hidden_size` {hidden} cannot be shared by {heads} `num_attention_heads`"));
        }
        if self.max_position_embeddings < 3 {
            let positions = self.max_position_embeddings;
            return Err(format!("{positions} `max_position_embeddings` leave no room for a word"));
        }
        Ok(())
    }
}

struct Vocabulary {
    ids: FxHashMap<Box<str>, u32>,
    cls: u32,
    sep: u32,
    unk: u32,
}

impl Vocabulary {
    fn parse(path: PathBuf, bytes: &[u8], many: usize) -> Result<Vocabulary, MiniLmError> {
        let refuse = |reason: String| MiniLmError::Vocabulary { path: path.clone(), reason };
        let text = std::str::from_utf8(bytes).map_err(|error| refuse(error.to_string()))?;
        let lines = text.lines().count();
        if lines != many {
            return Err(refuse(format!("it has {lines} lines, and {CONFIG_FILE} says {many}")));
        }
        let ids: FxHashMap<Box<str>, u32> = text.lines().map(Box::from).zip(0..).collect();
        let special =
            |name: &str| ids.get(name).copied().ok_or_else(|| refuse(format!("it has no line `{name}`")));
        let (cls, sep, unk) = (special("[CLS]")?, special("[SEP]")?, special("[UNK]")?);
        Ok(Vocabulary { ids, cls, sep, unk })
    }

    fn ids(&self, text: &str, many_max: usize) -> Vec<u32> {
        let mut ids = vec![self.cls];
        each_word(text, &mut |word| {
            // Words after the limit are split but not looked up.
            if ids.len() < many_max && !pieces(word, |piece| self.ids.get(piece).copied(), &mut ids) {
                ids.push(self.unk);
            }
        });
        ids.truncate(many_max - 1);
        ids.push(self.sep);
        ids
    }
}

/// The tensors of a file by their names, taken out one by one.
struct Weights {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
    prefix: &'static str,
}

impl Weights {
    fn parse(path: PathBuf, bytes: &[u8]) -> Result<Weights, MiniLmError> {
        match candle_core::safetensors::load_buffer(bytes, &Device::Cpu) {
            Ok(tensors) => {
                // Models that were saved with a head on top have their encoder under a name of its own.
                let prefixed = tensors.keys().any(|name| name.starts_with("bert."));
                Ok(Weights { path, tensors, prefix: if prefixed { "bert." } else { "" } })
            }
            Err(error) => {
                let reason = format!("it is not a whole safetensors file ({error}); fetch it again");
                Err(MiniLmError::Weights { path, reason })
            }
        }
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, MiniLmError> {
        let name = format!("{}{name}", self.prefix);
        let reason = match self.tensors.remove(&name) {
            Some(tensor) if tensor.dims() == shape && tensor.dtype() == candle_core::DType::F32 => {
                return Ok(tensor);
            }
            Some(tensor) => {
                let (dtype, dims) = (tensor.dtype().as_str(), tensor.dims());
                format!("`{name}` is {dtype} {dims:?}, and {CONFIG_FILE} asks for f32 {shape:?}")
            }
            None => format!("it has no `{name}`"),
        };
        Err(MiniLmError::Weights { path: self.path.clone(), reason })
    }

    /// Refuses weights with layers that were not used: a model without some of its layers makes bad vectors without an
    /// error.
    fn no_layer_left(&self) -> Result<(), MiniLmError> {
        let layers = format!("{}encoder.layer.", self.prefix);
        if self.tensors.keys().any(|name| name.starts_with(&layers)) {
            let reason = format!("it has more layers than {CONFIG_FILE} says");
            return Err(MiniLmError::Weights { path: self.path.clone(), reason });
        }
        Ok(())
    }

    fn linear(&mut self, name: &str, from: usize, to: usize) -> Result<Linear, MiniLmError> {
        let weight = self.take(&format!("{name}.weight"), &[to, from])?;
        let bias = self.take(&format!("{name}.bias"), &[to])?;
        Ok(Linear::new(weight, Some(bias)))
    }

    fn norm(&mut self, name: &str, config: &Config) -> Result<LayerNorm, MiniLmError> {
        let weight = self.take(&format!("{name}.LayerNorm.weight"), &[config.hidden_size])?;
        let bias = self.take(&format!("{name}.LayerNorm.bias"), &[config.hidden_size])?;
        Ok(LayerNorm::new(weight, bias, config.layer_norm_eps.unwrap_or(LAYER_NORM_EPS)))
    }
}

/// The encoder. The tokens of all texts of a batch are the rows of one matrix; only attention looks at each text by
/// itself, so nothing is padded, nothing needs a mask, and no text can see another.
struct Bert {
    hidden: usize,
    words: Tensor,
    /// Row by position. The row of the first token type is already added, since a single sentence has no other type.
    positions: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

impl Bert {
    fn new(config: &Config, tokens_max: usize, weights: &mut Weights) -> Result<Bert, MiniLmError> {
        let hidden = config.hidden_size;
        let words = weights.take("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let positions = weights
            .take("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
        let types =
            weights.take("embeddings.token_type_embeddings.weight", &[config.type_vocab_size, hidden])?;
        let positions = positions
            .narrow(0, 0, tokens_max)
            .and_then(|positions| positions.broadcast_add(&types.narrow(0, 0, 1)?))
            .map_err(failed)?;
        let norm = weights.norm("embeddings", config)?;
        let layers = (0..config.num_hidden_layers)
            .map(|number| Layer::new(config, &format!("encoder.layer.{number}"), weights))
            .collect::<Result<_, _>>()?;
        weights.no_layer_left()?;
        Ok(Bert { hidden, words, positions, norm, layers })
    }

    /// For each text, the mean of the rows of its tokens after the last layer.
    fn means(&self, texts: &[Vec<u32>]) -> candle_core::Result<Vec<Vec<f32>>> {
        let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
        let places: Vec<u32> = lengths.iter().flat_map(|length| 0..*length as u32).collect();
        let words = self.words.index_select(&Tensor::new(texts.concat(), &Device::Cpu)?, 0)?;
        let positions = self.positions.index_select(&Tensor::new(places, &Device::Cpu)?, 0)?;
        let mut rows = self.norm.forward(&(words + positions)?)?;
        for layer in &self.layers {
            rows = layer.forward(&rows, &lengths)?;
        }
        each_text(&rows, &lengths, |rows| rows.mean(0)?.to_vec1())
    }
}

/// Calls `with` with the rows of each text.
fn each_text<T>(
    rows: &Tensor,
    lengths: &[usize],
    mut with: impl FnMut(Tensor) -> candle_core::Result<T>,
) -> candle_core::Result<Vec<T>> {
    let mut from = 0;
    let mut all = Vec::with_capacity(lengths.len());
    for length in lengths {
        all.push(with(rows.narrow(0, from, *length)?)?);
        from += length;
    }
    Ok(all)
}

struct Layer {
    heads: usize,
    /// Query, key and value side by side: one multiplication instead of three.
    ask: Linear,
    answer: Linear,
    answer_norm: LayerNorm,
    widen: Linear,
    narrow: Linear,
    norm: LayerNorm,
}

impl Layer {
    fn new(config: &Config, name: &str, weights: &mut Weights) -> Result<Layer, MiniLmError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let [query, key, value] = ["query", "key", "value"]
            .map(|part| weights.linear(&format!("{name}.attention.self.{part}"), hidden, hidden));
        let ask =
            side_by_side(&query?, &key?, &value?, hidden / config.num_attention_heads).map_err(failed)?;
        Ok(Layer {
            heads: config.num_attention_heads,
            ask,
            answer: weights.linear(&format!("{name}.attention.output.dense"), hidden, hidden)?,
            answer_norm: weights.norm(&format!("{name}.attention.output"), config)?,
            widen: weights.linear(&format!("{name}.intermediate.dense"), hidden, wide)?,
            narrow: weights.linear(&format!("{name}.output.dense"), wide, hidden)?,
            norm: weights.norm(&format!("{name}.output"), config)?,
        })
    }

    fn forward(&self, rows: &Tensor, lengths: &[usize]) -> candle_core::Result<Tensor> {
        let asked = self.ask.forward(rows)?;
        let seen = Tensor::cat(&each_text(&asked, lengths, |asked| self.attend(&asked))?, 0)?;
        let rows = self.answer_norm.forward(&(self.answer.forward(&seen)? + rows)?)?;
        let wide = gelu(&self.widen.forward(&rows)?)?;
        self.norm.forward(&(self.narrow.forward(&wide)? + rows)?)
    }

    /// Self-attention within one text, all heads at once.
    fn attend(&self, asked: &Tensor) -> candle_core::Result<Tensor> {
        let (tokens, columns) = asked.dims2()?;
        let parts =
            asked.reshape((tokens, 3, self.heads, columns / 3 / self.heads))?.permute((1, 2, 0, 3))?;
        let (query, key, value) = (parts.get(0)?, parts.get(1)?, parts.get(2)?);
        let shares = ops::softmax_last_dim(&query.matmul(&key.t()?)?)?;
        shares.matmul(&value)?.transpose(0, 1)?.reshape((tokens, columns / 3))
    }
}

/// Query, key and value as one linear layer. The scale of attention is multiplied into the query here, once, instead of
/// into every score.
fn side_by_side(
    query: &Linear,
    key: &Linear,
    value: &Linear,
    head_columns: usize,
) -> candle_core::Result<Linear> {
    let scale = 1.0 / (head_columns as f64).sqrt();
    let weight = Tensor::cat(&[&(query.weight() * scale)?, key.weight(), value.weight()], 0)?;
    let bias = |linear: &Linear| linear.bias().cloned().expect("every layer was read with its bias");
    let bias = Tensor::cat(&[(bias(query) * scale)?, bias(key), bias(value)], 0)?;
    Ok(Linear::new(weight, Some(bias)))
}

/// The exact GELU, `x/2 (1 + erf(x/√2))`. The `gelu_erf` of candle computes one number after the other and takes a
/// quarter of all time; this loop is compiled to vector instructions.
fn gelu(wide: &Tensor) -> candle_core::Result<Tensor> {
    let mut values = wide.flatten_all()?.to_vec1::<f32>()?;
    values.iter_mut().for_each(|x| *x *= 0.5 + 0.5 * erf(*x * FRAC_1_SQRT_2));
    Tensor::from_vec(values, wide.shape(), wide.device())
}

/// Abramowitz and Stegun 7.1.28. The error is at most 3e-7, which is less than the rounding of the sums around it.
fn erf(x: f32) -> f32 {
    const FACTORS: [f32; 6] =
        [0.000_043_063_8, 0.000_276_567_2, 0.000_152_014_3, 0.009_270_527, 0.042_282_01, 0.070_523_08];
    let size = x.abs();
    let sum = FACTORS.iter().fold(0.0, |sum, factor| (sum + factor) * size) + 1.0;
    let fourth = (sum * sum) * (sum * sum);
    let sixteenth = (fourth * fourth) * (fourth * fourth);
    (1.0 - 1.0 / sixteenth).copysign(x)
}
