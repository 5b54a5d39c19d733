//! Golden scripts: the comparison systems as stories, message by message.

mod scripts;
