//! ARA: replaced by the real back end when it is merged.
/// Handle.
#[derive(Debug)]
pub struct Ara;
/// Error.
#[derive(Debug, thiserror::Error)]
#[error("ara")]
pub struct AraError;
impl AraError {
    /// Problem.
    pub fn problem(&self) -> crate::domain::Problem {
        crate::domain::Problem::new("ara", crate::domain::ProblemKind::Failed, "x")
    }
}
impl Ara {
    /// New.
    pub fn new(_: &crate::config::Ara) -> Result<Self, AraError> {
        Ok(Self)
    }
}
