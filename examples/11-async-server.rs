//! An async server: axum, one shared model, and a `/health` that answers at once while 64 clients are served.
//!
//!     cargo run --release --example 11-async-server            # serves its own clients, and measures
//!     cargo run --release --example 11-async-server -- 8000    # serves that port until it is stopped
//!
//! A request is a line of token numbers, the answer four scores. `POST /score` holds no thread while the model
//! runs. `POST /score-blocking` does the same with a thread per call, to compare with. See `docs/async.md`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use millstream::nn::{Embedding, Linear, Module, TransformerEncoder, TransformerOptions, Weights};
use millstream::{DType, Device, Tensor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const WORDS: usize = 1000;
const SIZE: usize = 128;
/// A build for tests computes slowly.
const LAYERS: usize = if cfg!(test) { 1 } else { 4 };
const CLIENTS: u64 = 64;

struct App {
    device: Device,
    words: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl App {
    fn new() -> millstream::Result<Self> {
        let device = Device::cpu()?;
        let options =
            TransformerOptions { dim_feedforward: 512, batch_first: true, ..Default::default() };
        Weights::random(1, DType::F32, &device).load(|weights| {
            Ok(Self {
                device,
                words: Embedding::new(WORDS, SIZE, &weights.child("words"))?,
                encoder: TransformerEncoder::new(
                    SIZE,
                    4,
                    LAYERS,
                    true,
                    options,
                    &weights.child("encoder"),
                )?,
                head: Linear::new(SIZE, 4, true, &weights.child("head"))?,
            })
        })
    }

    /// Records the model; nothing is computed yet.
    fn forward(&self, tokens: &[i64]) -> millstream::Result<Tensor> {
        let tokens = Tensor::from_slice(tokens, &[1, tokens.len()], &self.device)?;
        let states = self.encoder.forward(&self.words.forward(&tokens)?)?;
        self.head.forward(&states.mean(1, false)?)?.softmax(-1)
    }

    /// The way from async code: await room, record, await the result.
    async fn score(&self, tokens: &[i64]) -> millstream::Result<Vec<f32>> {
        self.device.ready().await?;
        self.forward(tokens)?.to_vec_async().await
    }
}

type Answer = Result<String, (StatusCode, String)>;

fn tokens(body: &str) -> Result<Vec<i64>, (StatusCode, String)> {
    let numbers: Result<Vec<i64>, _> = body.split_whitespace().map(str::parse).collect();
    match numbers {
        Ok(tokens) if (1..=512).contains(&tokens.len()) => Ok(tokens),
        Ok(tokens) => Err((StatusCode::BAD_REQUEST, format!("{} tokens", tokens.len()))),
        Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
    }
}

/// A token that the model does not know is an error of this request and of nobody else.
fn answer(scores: millstream::Result<Vec<f32>>) -> Answer {
    let refused = |error: millstream::Error| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    scores.map(|scores| format!("{scores:?}")).map_err(refused)
}

async fn score(State(app): State<Arc<App>>, body: String) -> Answer {
    answer(app.score(&tokens(&body)?).await)
}

async fn score_blocking(State(app): State<Arc<App>>, body: String) -> Answer {
    let tokens = tokens(&body)?;
    let call = tokio::task::spawn_blocking(move || app.forward(&tokens)?.to_vec());
    answer(call.await.expect("the call panicked"))
}

fn routes(app: Arc<App>) -> axum::Router {
    axum::Router::new()
        .route("/health", get(|| async { "well" }))
        .route("/score", post(score))
        .route("/score-blocking", post(score_blocking))
        .with_state(app)
}

/// One request on a connection that is kept; status and body.
async fn ask(client: &mut TcpStream, request: &str, body: &str) -> std::io::Result<(u16, String)> {
    let length = body.len();
    let text = format!("{request} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    client.write_all(text.as_bytes()).await?;
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let field = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if field.and_then(|length| length.parse().ok()) == Some(body.len()) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                return Ok((status.unwrap_or(0), body.to_owned()));
            }
        }
        let before = read.len();
        client.read_buf(&mut read).await?;
        if read.len() == before {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn body_of(client: u64, request: u64) -> String {
    let token = |place: u64| (client * 31 + request % 4 * 7 + place * 13) % WORDS as u64;
    (0..24).map(|place| format!("{} ", token(place))).collect()
}

/// Calls per second of 64 clients, and how long `/health` took meanwhile, in order.
async fn measure(address: SocketAddr, path: &'static str, time: Duration) -> (f64, Vec<Duration>) {
    let stop = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.expect("the server listens");
                let mut known = vec![String::new(); 4];
                let mut calls = 0;
                while !stop.load(Ordering::Relaxed) {
                    let body = body_of(client, calls);
                    let (status, answer) =
                        ask(&mut stream, &format!("POST {path}"), &body).await.expect("an answer");
                    assert_eq!(status, 200, "{answer}");
                    let known = &mut known[(calls % 4) as usize];
                    assert!(known.is_empty() || *known == answer, "the same bits as before");
                    *known = answer;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut health = Vec::new();
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    while started.elapsed() < time {
        let asked = Instant::now();
        assert_eq!(ask(&mut stream, "GET /health", "").await.expect("an answer").1, "well");
        health.push(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut calls = 0;
    for client in clients {
        calls += client.await.expect("a client panicked");
    }
    health.sort_unstable();
    (calls as f64 / started.elapsed().as_secs_f64(), health)
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).enable_all().build().expect("the runtime starts")
}

fn serve(runtime: &tokio::runtime::Runtime, app: &Arc<App>, port: u16) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).expect("a free port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(axum::serve(listener, routes(Arc::clone(app))).into_future());
    address
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: Option<u16> = std::env::args().nth(1).map(|port| port.parse()).transpose()?;
    let app = Arc::new(App::new()?);
    let server = runtime(2);
    let address = serve(&server, &app, port.unwrap_or(0));
    println!("serving {address}");
    if port.is_some() {
        loop {
            std::thread::park();
        }
    }
    // Clients have a thread of their own, so that they do not wait for the server's.
    let clients = runtime(1);
    for path in ["/score", "/score-blocking"] {
        let (calls, health) = clients.block_on(measure(address, path, Duration::from_secs(3)));
        let at = |share: f64| health[((health.len() - 1) as f64 * share) as usize];
        let (p50, p99, worst) = (at(0.5), at(0.99), at(1.0));
        println!(
            "{path:16} {calls:6.0} calls/s; /health p50 {p50:.1?}, p99 {p99:.1?}, worst {worst:.1?}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_clients_get_the_right_answers() {
        let app = Arc::new(App::new().unwrap());
        let server = runtime(2);
        let address = serve(&server, &app, 0);
        let before = app.device.counters().blocks;
        let answers: Vec<_> = runtime(1).block_on(async {
            let client = |client| async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let mut answers = Vec::new();
                for request in 0..2 {
                    let body = body_of(client, request);
                    answers.push((ask(&mut stream, "POST /score", &body).await.unwrap(), body));
                }
                // A token that the model does not know.
                let (status, error) = ask(&mut stream, "POST /score", "1 99999 2").await.unwrap();
                assert_eq!(status, 422, "{error}");
                answers
            };
            let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number))).collect();
            let mut answers = Vec::new();
            for client in clients {
                answers.extend(client.await.unwrap());
            }
            answers
        });
        assert_eq!(app.device.counters().blocks, before, "no thread of the runtime was held");
        assert_eq!(answers.len(), 2 * CLIENTS as usize);
        for ((status, text), body) in answers {
            let expected = app.forward(&tokens(&body).unwrap()).unwrap().to_vec();
            assert_eq!((status, text), (200, answer(expected).unwrap()));
        }
    }
}
