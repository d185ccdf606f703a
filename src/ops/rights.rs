//! What the operator may do, asked of the cluster before it is tried.

use futures_util::StreamExt;

use crate::backend::kube::Kube;
use crate::config::{Environment, Need, Rights};
use crate::domain::rights::Answer;

/// Reviews that are asked for at the same time.
const AT_ONCE: usize = 4;

/// Asks for each right that an action needs. What is not answered is not known, and no reason not to try. Where the first is not
/// answered the others are not asked for: the API server is away, or says such things to nobody.
pub async fn look(kube: &Kube, environment: &Environment) -> Rights {
    look_for(kube, environment, &Need::ALL).await
}

/// The same for these rights only.
pub async fn look_for(kube: &Kube, environment: &Environment, needs: &[Need]) -> Rights {
    let review = |need: Need| async move {
        let right = need.right(kube.namespace(), &environment.targets);
        let answer = match kube.may(&right).await {
            Ok(answer) => answer,
            Err(error) => Answer::Unknown(error.problem("permissions")),
        };
        (need, (right, answer))
    };
    let mut needs = needs.iter().copied();
    let mut rights = Rights::default();
    if let Some(first) = needs.next() {
        let (who, (need, (right, answer))) = tokio::join!(kube.whoami(), review(first));
        rights.who = who.ok();
        let unanswered = matches!(answer, Answer::Unknown(_)).then(|| answer.clone());
        rights.answers.insert(need, (right, answer));
        if let Some(unanswered) = unanswered {
            let of =
                |need: Need| (need, (need.right(kube.namespace(), &environment.targets), unanswered.clone()));
            rights.answers.extend(needs.map(of));
            return rights;
        }
    }
    let asked: Vec<_> = futures_util::stream::iter(needs).map(review).buffered(AT_ONCE).collect().await;
    rights.answers.extend(asked);
    rights
}
