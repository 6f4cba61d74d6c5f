mod arenas;
mod chain;
mod deadline;
mod long_calls;
