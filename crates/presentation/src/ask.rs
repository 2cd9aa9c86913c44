//! What a reply would rather know than guess. An edge that can ask people does so, and calls again with the answer.

#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    pub message: String,
    /// The arguments that the answer gives.
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: &'static str,
    pub about: String,
    /// What there is to choose from; empty if any text will do.
    pub choices: Vec<String>,
    pub is_required: bool,
}
