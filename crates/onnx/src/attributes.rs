//! Attributes of a node.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::proto::attribute_proto::AttributeType;
use crate::proto::{AttributeProto, GraphProto, SparseTensorProto, TensorProto};
use crate::{Error, Result};

/// The attributes of a node, by name. It notes which were asked for: what nobody asked for is not known.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    given: HashMap<&'a str, &'a AttributeProto>,
    asked: RefCell<HashSet<String>>,
}

fn invalid<T>(reason: String) -> Result<T> {
    Err(Error::Invalid { op: "attribute", reason })
}

impl<'a> Attributes<'a> {
    /// Those of a node; `bound` are the attributes of the function that it belongs to, which nodes may refer to.
    pub fn new(
        given: &'a [AttributeProto],
        bound: Option<&'a HashMap<String, AttributeProto>>,
    ) -> Result<Self> {
        let mut by_name = HashMap::new();
        for attribute in given {
            let Some(name) = attribute.name.as_deref() else {
                return invalid("an attribute has no name".into());
            };
            let referred = attribute.ref_attr_name.as_deref().filter(|name| !name.is_empty());
            let attribute = match (referred, bound) {
                (None, _) => Some(attribute),
                (Some(outer), Some(bound)) => bound.get(outer),
                (Some(outer), None) => {
                    return invalid(format!("{name} refers to {outer} outside of a function"));
                }
            };
            if let Some(attribute) = attribute
                && by_name.insert(name, attribute).is_some()
            {
                return invalid(format!("{name} is given twice"));
            }
        }
        Ok(Self { given: by_name, asked: RefCell::new(HashSet::new()) })
    }

    /// An attribute that must have a type, if it is given.
    fn find(&self, name: &str, kind: AttributeType) -> Result<Option<&'a AttributeProto>> {
        self.asked.borrow_mut().insert(name.to_owned());
        let Some(&attribute) = self.given.get(name) else { return Ok(None) };
        let found = attribute.r#type.unwrap_or(0);
        // Files of the first version leave the type out.
        if found == kind as i32 || found == 0 {
            return Ok(Some(attribute));
        }
        let found = AttributeType::try_from(found).map_or("unknown", |kind| kind.as_str_name());
        invalid(format!("{name} is of type {found}, expected {}", kind.as_str_name()))
    }

    /// Says that an attribute may be there and means nothing here.
    pub fn ignore(&self, names: &[&str]) {
        self.asked.borrow_mut().extend(names.iter().map(|&name| name.to_owned()));
    }

    /// An integer.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.find(name, AttributeType::Int)?.map(|attribute| attribute.i.unwrap_or(0)))
    }

    /// An integer with a default.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer that means yes or no.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int_or(name, i64::from(default))? != 0)
    }

    /// A number.
    pub fn float(&self, name: &str) -> Result<Option<f32>> {
        Ok(self.find(name, AttributeType::Float)?.map(|attribute| attribute.f.unwrap_or(0.0)))
    }

    /// A number with a default.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// A text.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>> {
        let Some(attribute) = self.find(name, AttributeType::String)? else { return Ok(None) };
        match std::str::from_utf8(attribute.s.as_deref().unwrap_or_default()) {
            Ok(text) => Ok(Some(text)),
            Err(_) => invalid(format!("{name} is not UTF-8")),
        }
    }

    /// A text with a default.
    pub fn string_or(&self, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.string(name)?.unwrap_or(default))
    }

    /// Several integers.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>> {
        Ok(self.find(name, AttributeType::Ints)?.map(|attribute| &attribute.ints[..]))
    }

    /// Several numbers.
    pub fn floats(&self, name: &str) -> Result<Option<&'a [f32]>> {
        Ok(self.find(name, AttributeType::Floats)?.map(|attribute| &attribute.floats[..]))
    }

    /// Several texts.
    pub fn strings(&self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(attribute) = self.find(name, AttributeType::Strings)? else { return Ok(None) };
        let texts = attribute.strings.iter().map(|text| String::from_utf8(text.to_vec()));
        match texts.collect::<std::result::Result<Vec<String>, _>>() {
            Ok(texts) => Ok(Some(texts)),
            Err(_) => invalid(format!("{name} is not UTF-8")),
        }
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>> {
        Ok(self.find(name, AttributeType::Tensor)?.and_then(|attribute| attribute.t.as_ref()))
    }

    /// A sparse tensor.
    pub fn sparse(&self, name: &str) -> Result<Option<&'a SparseTensorProto>> {
        let attribute = self.find(name, AttributeType::SparseTensor)?;
        Ok(attribute.and_then(|attribute| attribute.sparse_tensor.as_ref()))
    }

    /// A graph.
    pub fn graph(&self, name: &str) -> Result<Option<&'a GraphProto>> {
        Ok(self.find(name, AttributeType::Graph)?.and_then(|attribute| attribute.g.as_ref()))
    }

    /// The attribute as it stands.
    pub fn raw(&self, name: &str) -> Option<&'a AttributeProto> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.given.get(name).copied()
    }

    /// All names that are given.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.given.keys().copied()
    }

    /// # Errors
    ///
    /// An attribute that nobody asked for: ignoring it could give wrong answers.
    pub fn check_all_asked(&self) -> Result<()> {
        let asked = self.asked.borrow();
        match self.given.keys().find(|name| !asked.contains(**name)) {
            Some(name) => invalid(format!("{name} is not an attribute that is known here")),
            None => Ok(()),
        }
    }
}
