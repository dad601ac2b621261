import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { type Owner, thisTest } from '../service/running.ts'
import { testPart } from '../test-part.ts'
import { until } from '../until.ts'

const SOURCES = join(import.meta.dirname, 'go-client')
const PROGRAM = testPart('go-grpc-client', digestOf('main.go', 'go.mod', 'go.sum'))

/** What tests with this client lack. */
export const missingGoClient = existsSync(PROGRAM) ? undefined : 'the gRPC client in Go is not installed: sh scripts/install-test-parts.sh'

interface GoEvent {
  readonly id: number
  readonly message?: object
  readonly code?: number
  readonly details?: string
}

/** A call and all that has come of it. */
export interface GoCall {
  readonly id: number
  readonly messages: object[]
  /** The status that it ended with. */
  code: number | undefined
  details: string
}

/** A process that calls with grpc-go and the code that Envoy's project generates. */
export class GoClient {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>
  readonly #calls = new Map<number, GoCall>()

  constructor(target: string, owner: Owner = thisTest) {
    this.#process = spawn(PROGRAM, [target], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => this.#process.on('close', resolve))
    owner.onTestFinished(async () => {
      this.#process.kill()
      await ended
    })
    createInterface(this.#process.stdout).on('line', (line) => this.#note(JSON.parse(line) as GoEvent))
  }

  /** Begins a call. */
  start(method: string, request: object = {}, timeoutMs = 0): GoCall {
    const call: GoCall = { id: this.#calls.size + 1, messages: [], code: undefined, details: '' }
    this.#calls.set(call.id, call)
    this.#send({ id: call.id, method, request, timeoutMs })
    return call
  }

  /** A call that ends by itself. */
  async call(method: string, request?: object, timeoutMs?: number): Promise<GoCall> {
    const call = this.start(method, request, timeoutMs)
    await until(() => call.code !== undefined)
    return call
  }

  cancel(call: GoCall): void {
    this.#send({ id: -1, cancel: call.id })
  }

  #send(command: object): void {
    this.#process.stdin.write(`${JSON.stringify(command)}\n`)
  }

  #note({ id, message, code, details = '' }: GoEvent): void {
    const call = this.#calls.get(id)!
    if (message !== undefined) call.messages.push(message)
    if (code !== undefined) Object.assign(call, { code, details })
  }
}

function digestOf(...names: readonly string[]): string {
  const digest = createHash('sha256')
  for (const name of names) digest.update(readFileSync(join(SOURCES, name)))
  return digest.digest('hex').slice(0, 16)
}
