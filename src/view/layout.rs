//! Which parts the screen has at a size: what matters least goes first.

use ratatui::layout::Rect;

use super::pen::rows;

/// The parts of the screen; those without room have no height.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Environment and back ends.
    pub(crate) header: Rect,
    /// What nobody may miss: that approvals are held.
    pub(crate) banner: Rect,
    /// Screens, and the path into one.
    pub(crate) tabs: Rect,
    /// The rule below.
    pub(crate) rule: Rect,
    /// Counts and filter, or stages.
    pub(crate) summary: Rect,
    /// What the screen is about.
    pub(crate) body: Rect,
    /// The rule that carries notices.
    pub(crate) notice: Rect,
    /// One line of details.
    pub(crate) details: Rect,
    /// The keys.
    pub(crate) footer: Rect,
}

impl Layout {
    /// The parts in an area; `details`: one line of details is wanted; `banner`: there is something nobody may miss.
    pub(crate) fn new(area: Rect, details: bool, banner: bool) -> Self {
        let h = area.height;
        let when = |least: u16| u16::from(h >= least);
        let tall = [when(3), when(14), when(14), when(8), when(20)];
        let (notice, detail, footer) = (when(5), if details { when(16) } else { 0 }, when(2));
        let [header, tabs, rule, summary, blank] = tall;
        let told = if banner { when(4) } else { 0 };
        let above = tall.iter().sum::<u16>() + told;
        let below = notice + detail + footer;
        let mut at = 0;
        let mut take = |height: u16| {
            let part = rows(area, at, height);
            at += height;
            part
        };
        let (header, banner) = (take(header), take(told));
        let (tabs, rule, summary) = (take(tabs), take(rule), take(summary));
        take(blank);
        let body = take(h.saturating_sub(above + below));
        Self {
            header,
            banner,
            tabs,
            rule,
            summary,
            body,
            notice: take(notice),
            details: take(detail),
            footer: take(footer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_every_height_and_the_body_comes_first() {
        for height in 0..60 {
            for (details, banner) in [(false, false), (true, false), (false, true), (true, true)] {
                let area = Rect::new(0, 0, 80, height);
                let l = Layout::new(area, details, banner);
                let above = [l.header, l.banner, l.tabs, l.rule, l.summary];
                let parts = above.into_iter().chain([l.body, l.notice, l.details, l.footer]);
                let parts: Vec<Rect> = parts.collect();
                assert_eq!(l.banner.height, u16::from(banner && height >= 4));
                let used: u16 = parts.iter().map(|p| p.height).sum();
                assert_eq!(used + u16::from(height >= 20), height);
                assert!(height == 0 || l.body.height > 0, "no body in {height} rows");
                assert!(parts.iter().all(|p| p.bottom() <= height));
            }
        }
    }
}
