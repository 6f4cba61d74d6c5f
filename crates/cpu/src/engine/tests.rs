mod arenas;
mod chain;
mod deadline;
