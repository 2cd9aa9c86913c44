//! A question about values that a reply would otherwise have to guess. A server that can ask people does so,
//! and calls the tool again with their answers.

#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub message: String,
    /// The arguments that the answer supplies.
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: &'static str,
    pub about: String,
    /// The values to choose from; empty if any text is accepted.
    pub choices: Vec<String>,
    pub is_required: bool,
}
