//! The queue, as `pending` shows it.

use std::fmt::Write as _;

use lucia_proto::base::text::shown;

use crate::survey::{Outlook, Survey, SurveyRow};

/// The queue for people: one line a request, then what is wrong.
#[must_use]
pub fn pending_table(survey: &Survey) -> String {
    let mut out = String::new();
    if survey.requests.is_empty() {
        out.push_str("No request waits for anybody.\n");
    } else {
        let _ = writeln!(out, "{:<15} {:<20} {:<20} STATE", "CODE", "HOSTNAME", "UNTIL");
    }
    for SurveyRow { code, hostname, expires_at, outlook, fingerprint, name_of, renamed_from, .. } in &survey.requests {
        let state = match outlook {
            Outlook::AwaitsAdmission => "waits for admission".to_owned(),
            Outlook::AwaitsOwner => "waits for an owner".to_owned(),
            Outlook::AwaitsReplacement => "waits to replace the node of this name".to_owned(),
            Outlook::AwaitsRename => "waits for its new name".to_owned(),
            Outlook::AwaitsRoom(why) => format!("waits: {}", shown(why)),
            Outlook::Answered => "admitted".to_owned(),
            Outlook::Refused(why) => format!("refused: {}", shown(why)),
        };
        let _ = writeln!(out, "{:<15} {:<20} {:<20} {state}", code.as_str(), hostname.as_str(), expires_at.to_string());
        if *outlook == Outlook::AwaitsOwner {
            let _ = writeln!(out, "  an owner drafts its admit, and signs it on their own machine: luciactl sign CODE");
            let _ = writeln!(out, "  or, as the operator of this host:");
        }
        if matches!(outlook, Outlook::AwaitsAdmission | Outlook::AwaitsOwner) {
            let [first, second] = fingerprint.rows();
            let _ = writeln!(out, "  compare with the machine's own screen:\n    {first}\n    {second}\n  then:");
            let _ = writeln!(out, "  lucia-enrollment-worker admit {code} --fingerprint {fingerprint}");
        }
        if let (Outlook::AwaitsRename, Some(from)) = (outlook, renamed_from) {
            let _ = writeln!(out, "  the node is {from} here and calls itself {hostname}; if that was meant:");
            let _ = writeln!(out, "  lucia-enrollment-worker rename {from} {hostname}");
        }
        if let (Outlook::AwaitsReplacement, Some(owner)) = (outlook, name_of) {
            // Its fingerprint is not shown: pasted from here it would compare the controller's word with itself.
            let _ = writeln!(
                out,
                "  bars the key of node {owner} for ever. Compare the code with the machine's own screen, and take"
            );
            let _ = writeln!(out, "  HEX from there: the fingerprint that `lucia-node-agent discover` showed. Then:");
            let _ = writeln!(out, "  lucia-enrollment-worker admit {code} --fingerprint HEX --replaces {hostname}");
        }
    }
    for problem in &survey.problems {
        let _ = writeln!(out, "\n! {}", shown(problem));
    }
    out
}

#[cfg(test)]
mod tests {
    use lucia_proto::base::time::UnixTime;
    use lucia_proto::test_support::TestNode;

    use super::*;
    use crate::decide::names;
    use crate::fixture::request;

    // spec: WK-58
    #[test]
    fn every_state_of_pending_stands_under_its_head() {
        let nobody = Survey::default();
        let until = UnixTime::from_secs(1_795_982_400);
        let row = |number| {
            let request = request(&TestNode::new(number), until);
            SurveyRow {
                code: request.public_key_fingerprint.verification_code(),
                names: names(&request),
                hostname: request.hostname,
                node_id: request.node_id,
                fingerprint: request.public_key_fingerprint,
                task_id: request.task_id,
                expires_at: request.expires_at,
                outlook: Outlook::Answered,
                name_of: None,
                renamed_from: None,
            }
        };
        let with = |number, outlook| SurveyRow { outlook, ..row(number) };
        let waiting = vec![
            with(1, Outlook::AwaitsAdmission),
            with(2, Outlook::AwaitsOwner),
            SurveyRow { name_of: Some(TestNode::new(9).node_id), ..with(3, Outlook::AwaitsReplacement) },
            SurveyRow { renamed_from: "web".parse().ok(), ..with(4, Outlook::AwaitsRename) },
            with(5, Outlook::AwaitsRoom("a setting is reached".to_owned())),
            with(6, Outlook::Refused("a reason".to_owned())),
        ];
        let waiting = Survey { requests: waiting, problems: vec!["a problem".to_owned()] };
        let views = [nobody, waiting].map(|survey| pending_table(&survey)).join("\n");
        expect_test::expect_file!["snapshots/pending.txt"].assert_eq(&views);
        let table = pending_table(&Survey { requests: vec![row(1), row(200)], problems: Vec::new() });
        let head = table.lines().next().unwrap();
        for (title, text) in [("UNTIL", until.to_string()), ("STATE", "admitted".to_owned())] {
            let at = head.find(title).unwrap();
            assert!(table.lines().skip(1).all(|line| line.find(&text) == Some(at)), "{table}");
        }
    }
}
