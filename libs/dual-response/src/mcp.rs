//! Responses in the types of rmcp.

use rmcp::model::{Annotations, CallToolResult, ContentBlock, MetaObject, Resource, Role};
use serde_json::Value;

use crate::server::DualResponse;
use crate::wire::MIME_JSON;

impl DualResponse {
    /// The tool result in rmcp's type, which also knows what each revision of the protocol requires.
    pub fn to_call_tool_result(&self) -> CallToolResult {
        let mut link = Resource::new(&self.resource_uri, &self.name).with_mime_type(MIME_JSON);
        let mut annotations = Annotations::default();
        annotations.audience = Some(vec![Role::User, Role::Assistant]);
        annotations.last_modified = Some(self.created_at.to_string());
        link.annotations = Some(annotations);
        let content = vec![ContentBlock::text(self.to_text()), ContentBlock::resource_link(link)];
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(self.to_structured_content());
        if let Value::Object(meta) = self.to_meta() {
            result.meta = Some(MetaObject(meta));
        }
        result
    }
}

impl From<DualResponse> for CallToolResult {
    fn from(response: DualResponse) -> Self {
        response.to_call_tool_result()
    }
}

#[cfg(feature = "client")]
impl crate::client::DualResponseClient {
    /// Parses a tool result of rmcp; `None` if it is not a dual response.
    pub fn parse_rmcp(&self, result: &CallToolResult) -> Option<crate::client::ParsedDualResponse> {
        self.parse(&serde_json::to_value(result).ok()?)
    }
}
