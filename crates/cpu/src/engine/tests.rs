mod chain;
mod deadline;
