//! A small server: eight threads answer requests over TCP with one shared model.
//!
//!     cargo run --release --example 08-server              # answers its own clients, then ends
//!     cargo run --release --example 08-server -- 8000      # serves that port until it is stopped
//!
//! A request is a line of 16 numbers, the answer a line of 4. There is no lock around the model and no
//! queue in front of it: each thread calls it as if it were alone.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use millstream::nn::{Linear, Module, Sequential, Softmax, Tanh, Weights};
use millstream::{DType, Device, Result, Tensor};

const THREADS: usize = 8;
const INPUTS: usize = 16;

fn answer(model: &Sequential, device: &Device, line: &str) -> Result<Vec<f32>, String> {
    let numbers: Result<Vec<f32>, _> = line.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|error| error.to_string())?;
    // Another count of numbers is an error of this request and of nobody else.
    let run = || model.forward(&Tensor::from_slice(&numbers, &[1, INPUTS], device)?)?.to_vec();
    run().map_err(|error: millstream::Error| error.to_string())
}

fn serve(model: &Sequential, device: &Device, client: TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut writer = client.try_clone()?;
    for line in BufReader::new(client).lines() {
        match answer(model, device, &line?) {
            Ok(values) => writeln!(writer, "{values:?}")?,
            Err(error) => writeln!(writer, "error: {error}")?,
        }
    }
    Ok(())
}

fn ask(address: std::net::SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    writeln!(stream, "{request}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu()?;
    let model = Weights::random(1, DType::F32, &device).load(|weights| {
        Ok(Sequential::new()
            .push(Linear::new(INPUTS, 64, true, &weights.child(0))?)
            .push(Tanh)
            .push(Linear::new(64, 4, true, &weights.child(2))?)
            .push(Softmax { dim: -1 }))
    })?;

    let port: Option<u16> = std::env::args().nth(1).map(|port| port.parse()).transpose()?;
    let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0)))?;
    let address = listener.local_addr()?;
    println!("{THREADS} threads answer on {address}");

    // Threads may be in the middle of a call when `main` returns; the model is theirs for good.
    let model: &'static Sequential = Box::leak(Box::new(model));
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let listener = listener.try_clone()?;
        threads.push(std::thread::spawn(move || {
            for client in listener.incoming() {
                if let Err(error) = client.and_then(|client| serve(model, &device, client)) {
                    eprintln!("a client was lost: {error}");
                }
            }
        }));
    }
    if port.is_some() {
        threads.into_iter().for_each(|thread| thread.join().expect("a server thread panicked"));
        return Ok(());
    }

    std::thread::scope(|scope| -> std::io::Result<()> {
        let clients: Vec<_> = (0..THREADS)
            .map(|client| scope.spawn(move || ask(address, &format!("{client} ").repeat(INPUTS))))
            .collect();
        for (index, client) in clients.into_iter().enumerate() {
            print!("client {index}: {}", client.join().expect("a client panicked")?);
        }
        Ok(())
    })?;
    print!("a bad request: {}", ask(address, "1 2 3")?);
    Ok(())
}
