//! Reads the text in a picture: one model finds where text stands, several threads share another that reads it.
//!
//!     cargo run --release --example 16-read-text det.onnx rec.onnx picture.ppm
//!
//! The models are those of PP-OCR; `pip download rapidocr-onnxruntime` brings `ch_PP-OCRv4_det_infer.onnx` and
//! `ch_PP-OCRv4_rec_infer.onnx`, which has the list of its characters with it. Pictures are PPM files (ImageMagick's
//! `convert a.png a.ppm` makes one); without a picture, one is drawn. `read-text.ppm` shows what was found.

use std::ops::Range;

use millstream::graph::{Array, ModelInfo};
use millstream::{Device, Error, Result, Session};

const THREADS: usize = 4;
/// The longest side of a picture in which text is looked for.
const MAX_SIDE: usize = 960;
/// From which probability on a pixel is text, and from which mean of them on a region is.
const PIXEL_THRESHOLD: f32 = 0.3;
const REGION_THRESHOLD: f32 = 0.6;
/// Regions that are smaller are specks.
const MIN_SIDE: usize = 3;
/// Regions come out too small; they grow by this times their area, divided by their perimeter.
const UNCLIP: f32 = 1.5;
/// Lines of text have this height when they are read, and a width that is a multiple of this. Few widths need few plans.
const LINE_HEIGHT: usize = 48;
const LINE_WIDTH: usize = 320;
/// Means and standard deviations of the channels that the models were trained with.
const IMAGENET: [(f32, f32); 3] = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];
const PLAIN: [(f32, f32); 3] = [(0.5, 0.5); 3];

type Pixel = [u8; 3];
const RED: Pixel = [255, 0, 0];

struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<Pixel>,
}

/// A part of a picture, with sides along those of the picture. Text that is tilted gets a region around all of it.
struct Region {
    x: Range<usize>,
    y: Range<usize>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(finder), Some(reader)) = (arguments.next(), arguments.next()) else {
        println!("needs two models, and a picture if you like: det.onnx rec.onnx picture.ppm");
        return Ok(());
    };
    let mut picture = arguments.next().map_or_else(|| Ok(sample()), |path| open(&path))?;
    let device = Device::best()?;
    let characters = characters(&reader)?;
    let (finder, reader) = (Session::open(finder, &device)?, Session::open(reader, &device)?);

    let regions = find(&finder, &picture)?;
    let read_all = |regions: &[Region]| -> Result<Vec<(String, f32)>> {
        regions.iter().map(|region| read(&reader, &picture.line(region), &characters)).collect()
    };
    // Every thread reads some of the lines, all of them with the one session.
    let lines = std::thread::scope(|scope| {
        let parts = regions.chunks(regions.len().div_ceil(THREADS).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || read_all(part))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("a thread panicked"));
        joined.collect::<Result<Vec<_>>>().map(|lines| lines.concat())
    })?;

    for (Region { x, y }, (text, confidence)) in regions.iter().zip(&lines) {
        println!("x {x:?}, y {y:?}: {text:?} ({:.0} %)", 100.0 * confidence);
    }
    regions.iter().for_each(|region| picture.outline(region));
    let path = "read-text.ppm";
    std::fs::write(path, picture.to_ppm()).map_err(|error| Error::write(path, error))?;
    println!("{} regions, drawn in {path}", regions.len());
    Ok(())
}

/// The first output of a model, whose shape has to be this one where it is known.
fn run(session: &Session, input: Array, expected: &[Option<usize>]) -> Result<Vec<f32>> {
    let outputs = session.run([input])?;
    let name = outputs.names().first().map_or("", String::as_str);
    let shape = outputs.tensor(name)?.shape();
    let fits = |(found, expected): (&usize, &Option<usize>)| expected.is_none_or(|it| it == *found);
    if shape.len() != expected.len() || !shape.iter().zip(expected).all(fits) {
        let reason = format!("output {name:?} is {shape:?}: is this a model of PP-OCR?");
        return Err(Error::Invalid { op: "read text", reason });
    }
    Ok(outputs.read::<f32>(name)?.into_owned())
}

/// Where text stands in a picture.
fn find(session: &Session, picture: &Picture) -> Result<Vec<Region>> {
    let scale = (MAX_SIDE as f32 / picture.width.max(picture.height) as f32).min(1.0);
    // The model halves its picture five times.
    let side = |length: usize| ((length as f32 * scale / 32.0).round() as usize).max(1) * 32;
    let (width, height) = (side(picture.width), side(picture.height));
    let input = picture.resized(&picture.whole(), width, height).to_array(width, &IMAGENET)?;
    let mut map = run(session, input, &[Some(1), Some(1), Some(height), Some(width)])?;

    let mut regions = Vec::new();
    for start in 0..map.len() {
        if map[start] <= PIXEL_THRESHOLD {
            continue;
        }
        let (Region { x, y }, score) = component(&mut map, width, height, start);
        if score < REGION_THRESHOLD || x.len().min(y.len()) < MIN_SIDE {
            continue;
        }
        let (across, down) = (x.len() as f32, y.len() as f32);
        let margin = UNCLIP * across * down / (2.0 * (across + down));
        let grown = |range: Range<usize>, size: usize, picture_size: usize| {
            let factor = picture_size as f32 / size as f32;
            let end = ((range.end as f32 + margin) * factor).ceil() as usize;
            ((range.start as f32 - margin) * factor).max(0.0) as usize..end.min(picture_size)
        };
        let (x, y) = (grown(x, width, picture.width), grown(y, height, picture.height));
        regions.push(Region { x, y });
    }
    Ok(regions)
}

/// The pixels of text that hang together with one of them: the region around them and their mean. They are taken off the map.
fn component(map: &mut [f32], width: usize, height: usize, start: usize) -> (Region, f32) {
    let (mut x, mut y) = (width..0, height..0);
    let (mut sum, mut count) = (0.0, 0.0);
    let mut waiting = vec![start];
    while let Some(at) = waiting.pop() {
        let probability = std::mem::take(&mut map[at]);
        if probability <= PIXEL_THRESHOLD {
            continue;
        }
        (sum, count) = (sum + probability, count + 1.0);
        let (column, row) = (at % width, at / width);
        x = x.start.min(column)..x.end.max(column + 1);
        y = y.start.min(row)..y.end.max(row + 1);
        for row in row.saturating_sub(1)..(row + 2).min(height) {
            let columns = column.saturating_sub(1)..(column + 2).min(width);
            waiting.extend(columns.map(|column| row * width + column));
        }
    }
    (Region { x, y }, sum / count)
}

/// The text of a line, and how sure the model is of it: the mean probability of its characters.
fn read(session: &Session, line: &Picture, characters: &[String]) -> Result<(String, f32)> {
    let input = line.to_array(line.width.next_multiple_of(LINE_WIDTH), &PLAIN)?;
    let scores = run(session, input, &[Some(1), None, Some(characters.len())])?;

    // A character that is seen in several steps is one, unless there is a step without a character between them.
    let (mut text, mut sum, mut count, mut last) = (String::new(), 0.0, 0, 0);
    for step in scores.chunks_exact(characters.len()) {
        let best = (0..step.len()).max_by(|a, b| step[*a].total_cmp(&step[*b])).unwrap_or(0);
        if best != 0 && best != last {
            text.push_str(&characters[best]);
            (sum, count) = (sum + step[best], count + 1);
        }
        last = best;
    }
    Ok((text, if count == 0 { 0.0 } else { sum / count as f32 }))
}

/// What the scores of a step stand for: no character, those of the list that the file has, and the space.
fn characters(model: &str) -> Result<Vec<String>> {
    let info = ModelInfo::open(model)?;
    let Some((_, list)) = info.facts.iter().find(|(name, _)| name == "character") else {
        let reason = "its metadata has no list of characters (\"character\")".to_owned();
        return Err(Error::Format { path: model.to_owned(), reason });
    };
    Ok([""].into_iter().chain(list.lines()).chain([" "]).map(str::to_owned).collect())
}

impl Picture {
    fn whole(&self) -> Region {
        Region { x: 0..self.width, y: 0..self.height }
    }

    /// A part of the picture in another size, with pixels between those that it has.
    fn resized(&self, region: &Region, width: usize, height: usize) -> Self {
        let places = |range: &Range<usize>, size: usize| -> Vec<(usize, usize, f32)> {
            let (factor, last) = (range.len() as f32 / size as f32, range.len() - 1);
            let between = |at: usize| {
                let place = ((at as f32 + 0.5) * factor - 0.5).clamp(0.0, last as f32);
                let before = place as usize;
                (range.start + before, range.start + (before + 1).min(last), place.fract())
            };
            (0..size).map(between).collect()
        };
        let (columns, rows) = (places(&region.x, width), places(&region.y, height));
        let row = |y: usize| &self.pixels[y * self.width..][..self.width];
        let mix = |a: f32, b: f32, part: f32| a + (b - a) * part;
        let mut pixels = Vec::with_capacity(width * height);
        for (above, below, down) in rows {
            for &(left, right, across) in &columns {
                pixels.push(std::array::from_fn(|channel| {
                    let [upper, lower] = [row(above), row(below)].map(|row| {
                        mix(row[left][channel].into(), row[right][channel].into(), across)
                    });
                    mix(upper, lower, down).round() as u8
                }));
            }
        }
        Self { width, height, pixels }
    }

    /// A line of text in the size in which it is read. Very long ones are squeezed.
    fn line(&self, region: &Region) -> Self {
        let width = (LINE_HEIGHT * region.x.len()).div_ceil(region.y.len());
        self.resized(region, width.min(10 * LINE_WIDTH), LINE_HEIGHT)
    }

    /// What the models take: one plane per channel, blue first, with zeros to the right.
    fn to_array(&self, width: usize, normal: &[(f32, f32); 3]) -> Result<Array> {
        let mut values = Vec::with_capacity(3 * width * self.height);
        for (channel, (mean, deviation)) in [2, 1, 0].into_iter().zip(normal) {
            for row in self.pixels.chunks_exact(self.width) {
                let value = |pixel: &Pixel| (f32::from(pixel[channel]) / 255.0 - mean) / deviation;
                values.extend(row.iter().map(value));
                values.resize(values.len() + width - self.width, 0.0);
            }
        }
        Array::from_slice(&values, &[1, 3, self.height, width])
    }

    fn outline(&mut self, Region { x, y }: &Region) {
        for row in y.clone() {
            // All pixels of the first and the last row, and both ends of the others.
            let is_end = row == y.start || row == y.end - 1;
            let step = if is_end { 1 } else { (x.len() - 1).max(1) };
            let columns = &mut self.pixels[row * self.width..][x.clone()];
            columns.iter_mut().step_by(step).for_each(|pixel| *pixel = RED);
        }
    }

    fn to_ppm(&self) -> Vec<u8> {
        let header = format!("P6\n{} {}\n255\n", self.width, self.height);
        [header.as_bytes(), self.pixels.as_flattened()].concat()
    }
}

/// Opens a PPM file.
fn open(path: &str) -> Result<Picture> {
    let bytes = std::fs::read(path).map_err(|error| Error::read(path, error))?;
    parse(&bytes).ok_or_else(|| Error::Format {
        path: path.to_owned(),
        reason: "not a PPM file of bytes (P6, values up to 255)".to_owned(),
    })
}

fn parse(file: &[u8]) -> Option<Picture> {
    let (mut rest, mut numbers) = (file.strip_prefix(b"P6")?, [0; 3]);
    for number in &mut numbers {
        rest = rest.trim_ascii_start();
        while rest.starts_with(b"#") {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            rest = rest[end..].trim_ascii_start();
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *number = str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        rest = &rest[digits..];
    }
    let [width, height, 255] = numbers else { return None };
    let bytes = usize::checked_mul(width, height)?.checked_mul(3)?;
    // One byte of white space ends the header.
    let data = rest.get(1..)?.get(..bytes).filter(|data| !data.is_empty())?;
    Some(Picture { width, height, pixels: data.as_chunks().0.to_vec() })
}

/// The letters that the sample needs, of five columns and seven rows each.
const LETTERS: &str = "ADEHLORST";
const SHAPES: [&str; 7] = [
    ".###. ####. ##### #...# #.... .###. ####. .#### #####",
    "#...# #...# #.... #...# #.... #...# #...# #.... ..#..",
    "#...# #...# #.... #...# #.... #...# #...# #.... ..#..",
    "##### #...# ####. ##### #.... #...# ####. .###. ..#..",
    "#...# #...# #.... #...# #.... #...# #.#.. ....# ..#..",
    "#...# #...# #.... #...# #.... #...# #..#. ....# ..#..",
    "#...# ####. ##### #...# ##### .###. #...# ####. ..#..",
];

/// A page with some words.
fn sample() -> Picture {
    let (width, height, scale) = (160, 80, 4);
    let mut page = Picture { width, height, pixels: vec![[255; 3]; width * height] };
    let words = [(10, 8, "HELLO"), (90, 20, "THREADS"), (10, 48, "READ THE LETTERS")];
    for (left, top, text) in words {
        for (at, letter) in text.chars().enumerate() {
            let Some(found) = LETTERS.find(letter) else { continue };
            for (row, shapes) in SHAPES.iter().enumerate() {
                let at = (top + row) * width + left + 6 * at;
                for (column, _) in shapes[6 * found..][..5].match_indices('#') {
                    page.pixels[at + column] = [0; 3];
                }
            }
        }
    }
    page.resized(&page.whole(), scale * width, scale * height)
}
