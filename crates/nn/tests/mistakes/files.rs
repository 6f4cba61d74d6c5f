//! Files that are not what they should be: each text says what to do.

use std::path::{Path, PathBuf};

use millstream_nn::models::bert::{Bert, SentenceEncoder};
use millstream_nn::models::m2m100::M2M100;
use millstream_nn::{Weights, save};

use super::{device, zeros};

/// A folder of this test's own, which goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What opening gives, with the path left out.
fn said(path: &Path) -> String {
    let error = Weights::open(path, &device()).unwrap_err().to_string();
    error.replace(&path.display().to_string(), "PATH")
}

const PICKLE: &str = "PATH is not valid: it is a PyTorch file of pickles, which are not read since they can run \
                      code: save it from Python with safetensors.torch.save_file(torch.load(PATH, \
                      weights_only=True), \"model.safetensors\")";

#[test]
fn files_of_other_formats_are_recognized() {
    let folder = Folder::new("formats");
    let cases: [(&str, &[u8], &str); 8] = [
        ("model.pt", b"PK\x03\x04\0\0\x08\x08 and more", PICKLE),
        ("model.pth", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", PICKLE),
        ("pytorch_model.bin", b"PK\x03\x04\0\0\x08\x08 and more", PICKLE),
        (
            "arrays.npz",
            b"PK\x03\x04\0\0\x08\x08 and more",
            "PATH is not valid: it is a NumPy archive: save its arrays from Python with \
             safetensors.numpy.save_file",
        ),
        (
            "array.npy",
            b"\x93NUMPY\x01\0 and more",
            "PATH is not valid: it is a NumPy array: read it with Tensor::read_npy",
        ),
        (
            "model.gguf",
            b"GGUF\x03\0\0\0 and more",
            "PATH is not valid: it is a GGUF file, which is not read: fetch the model's safetensors files",
        ),
        (
            "pointer.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
            "PATH is not valid: it is a pointer of Git LFS in place of the file: run git lfs pull",
        ),
        (
            "page.safetensors",
            b"<!DOCTYPE html><html>\n",
            "PATH is not valid: it is a web page in place of the file: fetch the file itself",
        ),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(said(&folder.file(name, bytes)), expected, "{name}");
    }
}

#[test]
fn files_that_were_cut_are_recognized() {
    let folder = Folder::new("cut");
    let path = folder.0.join("model.safetensors");
    save(&path, [("a", &zeros(&[4])), ("b", &zeros(&[2]))]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let header = u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    let cut = |length: usize| said(&folder.file("cut.safetensors", &whole[..length]));
    assert_eq!(cut(0), "PATH is not valid: it has 0 bytes, too few for a header");
    assert_eq!(
        cut(8 + header / 2),
        format!(
            "PATH is not valid: it ends within its header, {} of {header} bytes are there: the file was cut, \
             fetch or copy it again",
            header / 2
        )
    );
    let text = "PATH is not valid: at least 8 bytes are missing at its end: the file was cut, fetch or copy it again";
    assert_eq!(cut(whole.len() - 8), text);
    let text = "PATH is not valid: a header of 7453010330696380001 bytes, above 67108864: it is no safetensors file";
    assert_eq!(said(&folder.file("text", b"anything else")), text);
}

#[test]
fn names_of_a_hub_and_folders_without_weights() {
    let hub = "sentence-transformers/all-MiniLM-L6-v2";
    let expected = "cannot read sentence-transformers/all-MiniLM-L6-v2: there is no such folder here. If it is the \
                    name of a model on a hub, fetch it first, as with `hf download \
                    sentence-transformers/all-MiniLM-L6-v2 --local-dir all-MiniLM-L6-v2`, and open all-MiniLM-L6-v2";
    let device = device();
    let texts = [
        Weights::open(hub, &device).unwrap_err(),
        Bert::open(hub, &device).err().unwrap(),
        SentenceEncoder::open(hub, &device).err().unwrap(),
        M2M100::open(hub, &device).err().unwrap(),
    ];
    for text in texts {
        assert_eq!(text.to_string(), expected);
    }
    let folder = Folder::new("weightless");
    assert_eq!(
        said(&folder.0.join("model.safetensors")),
        "cannot read PATH: there is no such file or folder"
    );
    let none =
        "cannot read PATH: the folder has no model.safetensors and no model.safetensors.index.json";
    assert_eq!(said(&folder.0), none);
    folder.file("pytorch_model.bin", b"PK");
    assert_eq!(
        said(&folder.0),
        format!(
            "{none}, but pytorch_model.bin: {}",
            PICKLE.replace("PATH is not valid: it is", "that is")
        )
    );
    let single = folder.file("encoder.safetensors", b"");
    assert_eq!(said(&folder.0), format!("{none}, but encoder.safetensors: open that file"));
    let text = Bert::open(&single, &device).err().unwrap().to_string();
    let reason =
        "it is a file, but a model is opened by its folder, with config.json beside the weights";
    assert_eq!(text, format!("cannot read {}: {reason}", single.display()));
}
