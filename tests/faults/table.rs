//! Which test makes which fault of threats.md, held against the tree: a test that is gone, or a fault that is nowhere,
//! fails.

use std::fs;
use std::path::Path;

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// The programs alone.
    Alone,
    /// The programs alone, and in the case that is named one act of a person that the documentation names.
    Act(&'static str),
}

use Ends::{Act, Alone};

/// Fault, what ends it, and its tests as `file: function`.
const FAULTS: &[(&str, Ends, &[&str])] = &[
    (
        "F-1",
        Alone,
        &[
            "tests/faults/walk.rs: every_crash_point_is_died_at_and_the_story_ends_the_same",
            "tests/faults/walk.rs: a_death_at_one_point_alone_ends_the_same",
            "tests/it/lost.rs: the_agent_may_die_at_any_call",
            "agent/src/identity/tests.rs: f_1_a_crash_at_any_step_heals_by_a_restart_with_the_same_key",
            "agent/src/managed/tests.rs: f_1_a_daemon_that_dies_at_any_durable_step_is_managed_after_its_next_start",
        ],
    ),
    (
        "F-2",
        Alone,
        &[
            "tests/it/lost.rs: f_2_a_controller_that_dies_at_any_durable_step_has_all_it_acknowledged",
            "controller/src/parts/tests/durability.rs: f_2_a_crash_at_any_step_of_a_removal_needs_no_hands",
            "controller/src/store/journal_file/tests.rs: f_2_a_change_cut_short_anywhere_is_there_or_not",
        ],
    ),
    (
        "F-3",
        Alone,
        &[
            "tests/it/lost.rs: f_1_and_f_3_a_death_at_any_durable_step_costs_nothing",
            "worker/src/turn/tests.rs: a_crash_at_each_durable_step_leaves_one_live_leaf",
        ],
    ),
    (
        "F-5",
        Alone,
        &[
            "tests/faults/disks.rs: f_5_a_full_disk_under_anybody_costs_no_heartbeat_and_heals_when_there_is_room",
            "tests/faults/disks.rs: f_5_a_full_etc_keeps_the_keys_it_has_and_withdraws_nevertheless",
            "controller/src/parts/tests/durability.rs: f_5_a_full_disk_refuses_one_change_and_no_heartbeat",
            "worker/src/turn/tests.rs: a_full_disk_is_waited_out",
            "proto/durable/src/replace/tests.rs: a_full_disk_leaves_the_old_file",
        ],
    ),
    (
        "F-6",
        Alone,
        &[
            "tests/faults/disks.rs: f_6_a_failed_sync_is_never_called_good",
            "tests/faults/disks.rs: the_controller_ends_when_its_disk_is_in_doubt",
        ],
    ),
    (
        "F-7",
        Alone,
        &[
            "tests/faults/disks.rs: f_7_a_disk_without_inodes_is_a_full_one",
            "tests/faults/disks.rs: f_7_a_read_only_disk_costs_no_heartbeat_and_heals",
        ],
    ),
    (
        "F-8",
        Alone,
        &[
            "tests/faults/time.rs: f_8_a_wrong_clock_of_anybody_costs_nothing_that_lasts",
            "tests/it/clock.rs: f_8_a_machine_with_any_clock_joins_beats_and_renews",
            "tests/it/clock.rs: f_8_steps_of_the_controller_s_clock_discard_nothing",
            "tests/it/clock.rs: f_8_a_worker_with_a_wrong_clock_signs_nothing_that_is_taken",
        ],
    ),
    (
        "F-9",
        Act("away past max-lapse: lucia-enrollment-worker release-lapse"),
        &[
            "tests/faults/time.rs: f_9_a_suspended_node_resumes_with_one_heartbeat",
            "tests/faults/lapse.rs: a_node_that_was_off_past_its_certificate_comes_back_without_hands",
            "tests/faults/lapse.rs: past_max_lapse_one_act_at_the_worker_brings_it_back",
        ],
    ),
    (
        "F-10",
        Act("lucia-controller doctor --restore 1"),
        &[
            "tests/faults/damage.rs: f_10_a_damaged_journal_is_never_replaced_and_one_act_restores_it",
            "controller/src/parts/tests/durability.rs: f_10_what_is_not_a_whole_journal_stops_the_start",
        ],
    ),
    (
        "F-11",
        Act("a lost key: the machine is installed anew and approved with --replaces"),
        &[
            "tests/faults/damage.rs: f_11_a_damaged_identity_is_healed_by_its_key_and_a_damaged_key_by_nobody",
            "agent/src/identity/tests.rs: f_11_with_the_key_whole_the_rest_is_healed_or_asked_for_again",
        ],
    ),
    (
        "F-12",
        Alone,
        &[
            "tests/faults/damage.rs: f_12_of_two_controllers_one_writes",
            "tests/faults/takeover.rs: f_12_a_stopped_controller_that_wakes_after_a_take_over_writes_nothing",
            "proto/durable/src/lease/tests.rs: what_is_written_under_a_lease_is_not_once_it_was_taken_away",
            "proto/durable/src/lease/tests.rs: a_holder_whose_lease_was_taken_away_is_told_so",
            "controller/src/parts/tests/durability.rs: a_second_controller_is_refused_naming_the_first",
        ],
    ),
    (
        "F-13",
        Alone,
        &[
            "tests/faults/time.rs: f_13_a_partition_that_heals_is_forgotten",
            "tests/faults/time.rs: f_13_three_seconds_each_way_cost_no_heartbeat",
            "tests/faults/line.rs: f_13_latency_and_a_black_hole_on_a_real_line_are_forgotten",
            "tests/it/lost.rs: any_request_or_answer_may_be_lost",
        ],
    ),
    (
        "F-14",
        Alone,
        &[
            "tests/faults/time.rs: f_14_two_thousand_nodes_return_spread_out",
            "tests/it/lost.rs: a_controller_that_returns_hears_its_node_at_once_and_knows_all_it_knew",
        ],
    ),
    (
        "F-15",
        Alone,
        &[
            "tests/it/renew.rs: a_node_lives_through_five_days_without_a_worker",
            "worker/src/turn/tests/ca.rs: a_ca_that_is_down_is_left_alone_for_30_s_to_15_min_and_nothing_is_lost",
            "worker/src/turn/tests/ca.rs: what_is_wrong_about_one_node_is_not_stored_and_does_not_hold_up_the_others",
        ],
    ),
    (
        "F-16",
        Alone,
        &[
            "worker/src/directory/readers/tests.rs: a_directory_that_is_down_is_left_alone_for_a_while",
            "worker/tests/directory/turn.rs: a_request_waits_for_the_directory_and_then_gets_a_password_that_opens_it",
        ],
    ),
    ("F-21", Alone, &["worker/tests/cli.rs: run_tells_systemd_answers_within_the_poll_and_ends_at_sigterm"]),
    (
        "F-22",
        Alone,
        &[
            "tests/faults/races.rs: f_22_swapping_queue_files_moves_nothing_outside",
            "tests/faults/races.rs: f_22_swapping_etc_moves_nothing_outside",
        ],
    ),
    (
        "F-24",
        Alone,
        &[
            "tests/faults/pressure.rs: f_24_a_controller_out_of_descriptors_lives_and_keeps_its_state",
            "tests/faults/pressure.rs: f_24_a_controller_out_of_memory_lives_or_ends_and_keeps_its_state",
        ],
    ),
    ("F-25", Alone, &["tests/faults/pressure.rs: f_25_two_guests_of_one_image_have_two_keys"]),
    ("F-26", Alone, &["tests/faults/pressure.rs: f_26_every_story_has_an_unruly_controller_unless_it_says_otherwise"]),
];

/// The faults that this step has to make.
const WANTED: [u8; 20] = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 22, 24, 25, 26];

// spec: FT-3
#[test]
fn every_fault_has_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let faults: Vec<String> = FAULTS.iter().map(|(fault, ..)| (*fault).to_owned()).collect();
    assert_eq!(faults, WANTED.map(|number| format!("F-{number}")));
    for (fault, ends, tests) in FAULTS {
        assert!(!tests.is_empty(), "{fault} has no test");
        assert!(!matches!(ends, Act(act) if act.is_empty()), "{fault}");
        for test in *tests {
            let (file, function) = test.split_once(": ").unwrap();
            let text = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {function}(")), "{fault}: {file} has no {function}");
        }
    }
}
