//! Models of the SentencePiece library, converted to those of `tokenizers`.
//!
//! A model file is a protocol buffer. Little of it is needed: the pieces with their scores, how text is normalized,
//! and whether pieces are found by their scores (unigram) or by merging pairs (BPE).

use std::collections::HashMap;

use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{NormalizerWrapper, Precompiled, Replace, Sequence, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};

/// The character for a space in pieces.
pub const SPACE: &str = "\u{2581}";

/// The kinds of pieces that are found in text. Control pieces and unused ones are not.
const NORMAL: u64 = 1;
const USER_DEFINED: u64 = 4;

/// How pieces are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Unigram,
    Bpe,
}

/// The contents of a model file.
#[derive(Debug)]
pub struct Model {
    kind: Kind,
    pieces: Vec<(String, f64)>,
    characters: Vec<u8>,
    space_before: bool,
    extra_spaces: bool,
}

impl Model {
    /// Reads a model file.
    pub fn parse(file: &[u8]) -> Result<Self, &'static str> {
        let mut model = Self {
            kind: Kind::Unigram,
            pieces: Vec::new(),
            characters: Vec::new(),
            space_before: true,
            extra_spaces: false,
        };
        let mut fields = Fields(file);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(piece)) => model.add_piece(piece)?,
                (2, Field::Bytes(trainer)) => model.read_trainer(trainer)?,
                (3, Field::Bytes(normalizer)) => model.read_normalizer(normalizer)?,
                _ => {}
            }
        }
        match model.pieces.is_empty() {
            true => Err("it has no pieces"),
            false => Ok(model),
        }
    }

    fn add_piece(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        let (mut text, mut score, mut kind) = ("", 0.0, NORMAL);
        let mut fields = Fields(piece);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(bytes)) => {
                    text = str::from_utf8(bytes).map_err(|_| "a piece is not UTF-8")?;
                }
                (2, Field::Fixed(bits)) => score = f32::from_bits(bits),
                (3, Field::Number(number)) => kind = number,
                _ => {}
            }
        }
        if matches!(kind, NORMAL | USER_DEFINED) && !text.is_empty() {
            self.pieces.push((text.to_owned(), f64::from(score)));
        }
        Ok(())
    }

    fn read_trainer(&mut self, trainer: &[u8]) -> Result<(), &'static str> {
        let mut fields = Fields(trainer);
        while let Some(field) = fields.next()? {
            match field {
                (3, Field::Number(1)) => self.kind = Kind::Unigram,
                (3, Field::Number(2)) => self.kind = Kind::Bpe,
                (3, _) => return Err("it is neither a unigram nor a BPE model"),
                (35, Field::Number(1)) => {
                    return Err("it falls back to bytes, which is not supported");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, normalizer: &[u8]) -> Result<(), &'static str> {
        let mut fields = Fields(normalizer);
        while let Some(field) = fields.next()? {
            match field {
                (2, Field::Bytes(characters)) => self.characters = characters.to_vec(),
                (3, Field::Number(on)) => self.space_before = on != 0,
                (4, Field::Number(remove)) => self.extra_spaces = remove == 0,
                _ => {}
            }
        }
        Ok(())
    }

    /// A tokenizer that finds these pieces, and `unknown` for everything else. Its token ids have no meaning.
    pub fn into_tokenizer(mut self, unknown: &str) -> tokenizers::Result<Tokenizer> {
        let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
        if !self.characters.is_empty() {
            normalizers.push(Precompiled::from(&self.characters)?.into());
        }
        if !self.extra_spaces {
            normalizers.push(Strip::new(true, true).into());
            let several = ReplacePattern::Regex(" {2,}".into());
            normalizers.push(Replace::new(several, " ")?.into());
        }
        let prepend = match self.space_before {
            true => PrependScheme::Always,
            false => PrependScheme::Never,
        };
        let model: ModelWrapper = match self.kind {
            Kind::Unigram => {
                self.pieces.insert(0, (unknown.to_owned(), 0.0));
                Unigram::from(self.pieces, Some(0), false)?.into()
            }
            Kind::Bpe => self.bpe(unknown)?.into(),
        };
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(Sequence::new(normalizers)))?;
        tokenizer.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', prepend, true)));
        Ok(tokenizer)
    }

    /// The file does not have the merges. Each piece can be merged from any two pieces that are its parts, the best
    /// pieces first.
    fn bpe(self, unknown: &str) -> tokenizers::Result<BPE> {
        let numbers: HashMap<&str, usize> = self
            .pieces
            .iter()
            .enumerate()
            .map(|(number, (text, _))| (text.as_str(), number))
            .collect();
        let mut merges = Vec::new();
        for (text, score) in &self.pieces {
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                if let (Some(&first), Some(&second)) = (numbers.get(left), numbers.get(right)) {
                    merges.push((-score, first, second, (left.to_owned(), right.to_owned())));
                }
            }
        }
        merges.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let merges = merges.into_iter().map(|(.., pair)| pair).collect();
        let pieces = self.pieces.iter().map(|(text, _)| text.as_str()).chain([unknown]);
        let vocabulary: tokenizers::models::bpe::Vocab =
            pieces.zip(0..).map(|(text, number)| (text.to_owned(), number)).collect();
        BPE::builder()
            .vocab_and_merges(vocabulary, merges)
            .unk_token(unknown.to_owned())
            .fuse_unk(true)
            .build()
    }
}

/// A value of a protocol buffer.
enum Field<'a> {
    Number(u64),
    Fixed(u32),
    Bytes(&'a [u8]),
    /// Eight bytes; no field here has this type.
    Long,
}

/// The remaining fields of a protocol buffer, with their numbers.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, &'static str> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Field::Number(self.number()?),
            1 => self.take(8).map(|_| Field::Long)?,
            2 => {
                let bytes = self.number()?;
                Field::Bytes(self.take(usize::try_from(bytes).map_err(|_| CUT)?)?)
            }
            5 => {
                let mut bits = [0; 4];
                bits.copy_from_slice(self.take(4)?);
                Field::Fixed(u32::from_le_bytes(bits))
            }
            _ => return Err("it is not a SentencePiece model"),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number with seven bits per byte, the lowest first.
    fn number(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(number);
            }
        }
        Err("it is not a SentencePiece model")
    }
}

const CUT: &str = "it ends too early";
