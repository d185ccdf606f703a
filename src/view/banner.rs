//! What nobody may miss, on every screen: that approvals are held.

use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::pen::Pen;
use super::text::{cut_end, width};
use super::words::age;
use crate::app::{Seen, State, approvals};
use crate::config::{Action, Role};

/// From this width on there is room for the key, and from the other for the time of day.
const ROOMY: u16 = 60;
const WIDE: u16 = 110;

/// Whether there is something that nobody may miss.
pub(crate) fn wanted(state: &State) -> bool {
    state.store.approvals.hold().is_some()
}

/// Draws it over the whole width: the reason has the room that who and since when leave.
pub(crate) fn draw(pen: &mut Pen<'_>, area: Rect, state: &State, seen: &mut Seen) {
    let Some(hold) = state.store.approvals.hold().filter(|_| area.height > 0) else { return };
    let style = pen.style(Role::Warning).add_modifier(Modifier::BOLD | Modifier::REVERSED);
    pen.put_styled(area, 0, 0, &" ".repeat(usize::from(area.width)), style);
    let ago = age(hold.at, state.now, seen);
    let said = match area.width {
        WIDE.. => format!("approvals are {} ({ago} ago)", approvals::words(state, hold)),
        ROOMY.. => format!("approvals held for {ago} by {}: {}", hold.by, hold.reason),
        _ => format!("held by {}: {}", hold.by, hold.reason),
    };
    let hint = release(state).filter(|_| area.width >= ROOMY).unwrap_or_default();
    let end = area.width.saturating_sub(u16::try_from(width(&hint)).unwrap_or(0) + 1);
    let text = format!("{} {said}", pen.symbols().warning());
    let room = usize::from(end.saturating_sub(1));
    pen.put_styled(
        area,
        1,
        0,
        &cut_end(&super::text::harmless(&text), room, pen.symbols().ellipsis()),
        style,
    );
    pen.put_styled(area, end, 0, &hint, style);
}

/// The key that releases, where it counts; elsewhere the palette knows the action.
fn release(state: &State) -> Option<String> {
    let action = Action::ReleaseApprovals;
    let key = state.keymap.key_text(state.scope(), action);
    (action.in_scope(state.scope()) && !key.is_empty()).then(|| format!("  {key} {}", action.info().label))
}
