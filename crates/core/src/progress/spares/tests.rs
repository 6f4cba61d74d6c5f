use super::*;

#[test]
fn lists_of_batches_are_kept_up_to_a_number_and_a_size() {
    let progress = Progress::new();
    let batch = |room| Batch::new(Vec::with_capacity(room), 1, &[]);
    progress.recycle(batch(SPARE_COMMANDS + 1));
    assert_eq!(progress.spares().empty.len(), 0);
    for _ in 0..SPARES + 3 {
        progress.recycle(batch(SPARE_COMMANDS));
    }
    assert_eq!(progress.spares().empty.len(), SPARES);
}

#[test]
fn lists_with_the_commands_of_plans_are_kept_up_to_a_bound() {
    let part = |plan: u64, commands: usize| {
        let mut lists = BatchLists::default();
        lists.commands = Vec::with_capacity(commands);
        lists.set_plan(crate::PlanPart::empty(plan));
        Batch::from_lists(&mut lists, 1, smallvec::SmallVec::new(), false)
    };
    let progress = Progress::new();
    for plan in 0..SPARE_PLANS as u64 + 3 {
        progress.recycle(part(plan, 2));
    }
    assert_eq!(progress.spares().plans.len(), SPARE_PLANS);
    let mut lists = BatchLists::default();
    lists.commands = Vec::with_capacity(SPARE_COMMANDS + 1);
    assert!(!progress.take_plan((0, 0), &mut lists), "the oldest are gone");
    assert!(progress.take_plan((SPARE_PLANS as u64, 0), &mut lists) && lists.has_plan());
    assert!(progress.spares().empty.is_empty(), "lists with room for a plan are not kept");
    let most = SPARE_PLAN_COMMANDS / 2 + 1;
    progress.recycle(part(100, most));
    progress.recycle(part(101, most));
    let room: usize = progress.spares().plans.iter().map(|lists| lists.commands.capacity()).sum();
    assert!(room <= SPARE_PLAN_COMMANDS && room >= most);
}
