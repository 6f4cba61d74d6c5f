mod layer_norm;
mod rms_norm;
