import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { PROXY_WIRE } from '../run/proxy-wire.ts'
import { until } from '../until.ts'

export const ENTRY = fileURLToPath(new URL('../../../program/edge.js', import.meta.url))

export interface ProcessOptions {
  /** As `ulimit -n` sets it. */
  readonly maxOpenFiles?: number
  /** What Node and V8 are told besides. */
  readonly nodeFlags?: readonly string[]
  /** An installed one, run by itself, in place of this checkout's. */
  readonly program?: string
}

/** `edge` as its users run it: the built program in a process of its own. */
export class Cli {
  readonly process: ChildProcess
  stdout = ''
  stderr = ''
  readonly exited: Promise<number>

  constructor(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    { maxOpenFiles, nodeFlags = [], program: installed }: ProcessOptions = {},
  ) {
    const command = installed === undefined ? [process.execPath, ...nodeFlags, ENTRY, ...args] : [installed, ...args]
    const limited = ['sh', '-c', `ulimit -n ${maxOpenFiles}; exec "$@"`, 'sh', ...command]
    const [program, ...rest] = maxOpenFiles === undefined ? command : limited
    this.process = spawn(program!, rest, {
      env: { PATH: process.env['PATH'] ?? '', ...PROXY_WIRE, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.process.stdout!.on('data', (chunk: Buffer) => {
      this.stdout += chunk.toString()
    })
    this.process.stderr!.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString()
    })
    this.exited = new Promise((resolve) => {
      this.process.on('close', (code) => resolve(code ?? -1))
    })
  }

  /** Starts `edge serve` on a free loopback port and waits until it listens. */
  static async serve(env: Readonly<Record<string, string>> = {}, args: readonly string[] = []): Promise<Cli> {
    const cli = new Cli(['serve', ...args], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', ...env })
    await until(() => cli.stdout.includes('listens') || cli.process.exitCode !== null)
    return cli
  }

  get port(): number {
    return Number(/listens\s+https?:\/\/\S+?:(\d+)/.exec(this.stdout)![1])
  }

  /** To be asked for where EDGE_GRPC_PORT is set. */
  get grpcPort(): number {
    return Number(/gRPC\s+https?:\/\/\S+?:(\d+)/.exec(this.stdout)![1])
  }

  /** The structured log so far. */
  get log(): Record<string, unknown>[] {
    const lines = this.stderr.split('\n').slice(0, -1)
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  /** The log's entries of this kind. */
  logged(name: string): Record<string, unknown>[] {
    return this.log.filter(({ event }) => event === name)
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number> {
    this.process.kill(signal)
    return this.exited
  }
}
