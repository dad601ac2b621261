import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fetchFrom } from '../support/http-client.mjs'
import { OTHERS, start } from '../support/processes.mjs'

const MAIN = new URL('../../program/edge.js', import.meta.url)
const TEXTS = new URL('./text-backend.mjs', import.meta.url)

/** How much a model generates, and how long it takes. A request names the model; each has a backend of its own. */
export const MODELS = {
  /** 500 tokens, in 100 events if it is a stream. */
  usual: { tokens: 500, 'tokens-per-event': 5, 'token-ms': 4, 'delay-ms': 300 },
  /** Six times as much as somebody who knows `usual` would expect. */
  long: { tokens: 3000, 'tokens-per-event': 5, 'token-ms': 5, 'delay-ms': 300 },
  /** Slow enough to hang up halfway. */
  slow: { tokens: 500, 'tokens-per-event': 5, 'token-ms': 40, 'delay-ms': 1000 },
  /** Responses at once, in 20 events if they are streams. */
  quick: { tokens: 20, 'tokens-per-event': 1, 'token-ms': 5 },
  /** Streams that stay open for a quarter of a minute and say little: a hundred of them keep nobody busy. */
  held: { tokens: 10, 'tokens-per-event': 1, 'token-ms': 1500 },
}

/** What every request says. `edge fake-llm` counts it as two tokens. */
export const PROMPT = 'hello'
export const PROMPT_TOKENS = 2
/** What a request to `usual` costs. */
export const USUAL_TOKENS = PROMPT_TOKENS + MODELS.usual.tokens

/** Starts all of them on the load's core. Answers their ports by model; `texts` is the backend that reports no usage. */
export async function startBackends() {
  const ports = {}
  for (const [model, options] of Object.entries(MODELS)) {
    const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
    const backend = await start(OTHERS, MAIN, { args: ['fake-llm', '--port', '0', ...args] })
    ports[model] = backend.port
  }
  ports.texts = (await start(OTHERS, TEXTS)).port
  return ports
}

/** What a fake LLM has generated so far, as a provider would bill it. */
export async function generatedBy(port) {
  const { body } = await fetchFrom(port, '/fake/usage')
  const { requests, responses, prompt_tokens: prompt, completion_tokens: completion } = JSON.parse(body)
  return { requests, responses, completion, total: prompt + completion }
}

/** What it generated while `work` ran, and after that until it generates nothing more: a proxy may go on when its clients are gone. */
export async function generatedDuring(port, work) {
  const before = await generatedBy(port)
  const result = await work()
  const after = await settled(() => generatedBy(port))
  const grown = Object.fromEntries(Object.keys(before).map((name) => [name, after[name] - before[name]]))
  return { result, generated: grown }
}

/** Asks until two answers, 400 ms apart, are the same. */
async function settled(ask) {
  for (let last = await ask(); ; ) {
    await sleep(400)
    const next = await ask()
    if (JSON.stringify(next) === JSON.stringify(last)) return next
    last = next
  }
}

/** Until somebody answers there with 200, however slowly the machine starts it. */
export async function answering(child, port, path) {
  let hasEnded = false
  once(child, 'exit').then(() => (hasEnded = true))
  while (!hasEnded) {
    const isUp = await fetchFrom(port, path).then(
      ({ status }) => status === 200,
      () => false,
    )
    if (isUp) return
    await sleep(250)
  }
}
