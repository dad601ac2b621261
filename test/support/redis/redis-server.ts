import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, beforeEach } from 'vitest'
import type { Script, ScriptArgument } from '../../../src/store/redis/link/call.ts'
import { type Owner, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'
import { thisSuite } from '../service/suite-owner.ts'
import { type RedisReply, RespConnection } from './resp.ts'
import { SteppingClock } from './stepping-clock.ts'

export interface RedisOptions {
  /** Arguments besides port and directory: `['--appendonly', 'yes']`. They override ours. */
  readonly args?: readonly string[]
  /** What is in its directory when it starts for the first time, by name. */
  readonly files?: Readonly<Record<string, string>>
  /** The one of `files` that is its configuration file, which Redis may rewrite. */
  readonly configFile?: string
  /** Of the default user. */
  readonly password?: string
  /** Its wall clock can be stepped; needs libfaketime. */
  readonly hasSteppingClock?: boolean
  readonly port?: number
}

/** A Redis for as long as the test runs. */
export async function runningRedis(options: RedisOptions = {}, owner: Owner = thisTest): Promise<RedisServer> {
  const redis = await RedisServer.start(options)
  owner.onTestFinished(() => redis.close())
  return redis
}

/**
 * One Redis for all tests of a `describe`, which run one after another: each finds it running and empty. Call it in the body of that. A
 * test that changes its configuration changes it back, or has a Redis of its own.
 */
export function redisOfSuite(options: RedisOptions = {}): () => RedisServer {
  const suite = thisSuite()
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = await runningRedis(options, suite)
  })
  beforeEach(async () => {
    if (redis!.isRunning) redis!.resume()
    else await redis!.start()
    await redis!.command('FLUSHALL')
  })
  return () => redis!
}

/** A real `redis-server` on a loopback port, in a directory of its own; it forgets all when it ends, unless told otherwise. */
export class RedisServer {
  readonly port: number
  readonly directory: string
  readonly #options: RedisOptions
  readonly #clock: SteppingClock | undefined
  #process: ChildProcess | undefined
  #ended: Promise<void> = Promise.resolve()
  #output = ''

  private constructor(port: number, directory: string, options: RedisOptions) {
    this.port = port
    this.directory = directory
    this.#options = options
    if (options.hasSteppingClock) this.#clock = new SteppingClock(directory)
  }

  /** `close` it in the end. */
  static async start(options: RedisOptions = {}): Promise<RedisServer> {
    const redis = new RedisServer(options.port ?? (await serverPort()), await mkdtemp(join(tmpdir(), 'edge-redis-')), options)
    for (const [name, text] of Object.entries(options.files ?? {})) await writeFile(join(redis.directory, name), text)
    await redis.start()
    return redis
  }

  get url(): string {
    const { password } = this.#options
    return `redis://${password === undefined ? '' : `:${encodeURIComponent(password)}@`}${this.address}`
  }

  get address(): string {
    return `127.0.0.1:${this.port}`
  }

  get pid(): number {
    return this.#process!.pid!
  }

  get isRunning(): boolean {
    return this.#process?.exitCode === null && this.#process.signalCode === null
  }

  /** All that it printed since it was made. */
  get output(): string {
    return this.#output
  }

  /** By a connection of its own, through a socket file: no limit, gate or TLS of the port's is in its way. */
  command(...args: readonly (string | number)[]): Promise<RedisReply> {
    return this.#connected((connection) => connection.command(...args))
  }

  /** Loads a script and runs it, on such a connection too. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<RedisReply> {
    return this.#connected(async (connection) => {
      await connection.command('SCRIPT', 'LOAD', script.text)
      return connection.run(script, keys, args)
    })
  }

  /** How many times each command was called since `resetCalls`, those of scripts included; names are lower-case. */
  async calls(): Promise<Map<string, number>> {
    const info = (await this.command('INFO', 'commandstats')) as string
    return new Map([...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, calls]) => [name!, Number(calls)]))
  }

  async resetCalls(): Promise<void> {
    await this.command('CONFIG', 'RESETSTAT')
  }

  /** A line of INFO. */
  async info(name: string): Promise<string | undefined> {
    const text = (await this.command('INFO', 'everything')) as string
    return new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(text)?.[1]
  }

  /** Starts it again on its port, with whatever is in its directory, and waits until it responds. */
  async start(): Promise<void> {
    const child = spawn(...dyingWithUs('redis-server', this.#args), {
      cwd: this.directory,
      env: { PATH: process.env['PATH'] ?? '', ...this.#clock?.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    this.#ended = new Promise((resolve, reject) => {
      child.on('close', () => resolve())
      child.on('error', reject)
    })
    const listen = (chunk: Buffer) => {
      this.#output += chunk.toString()
    }
    child.stdout.on('data', listen)
    child.stderr.on('data', listen)
    while (!(await this.#responds())) {
      if (!this.isRunning) throw new Error(`redis-server did not start:\n${this.#output}`)
      await sleep(5)
    }
  }

  /** SIGKILL is a crash: what is not on the disk is lost. SIGTERM lets it save, if it is configured to. */
  async stop(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    if (this.isRunning) {
      this.#process!.kill(signal)
      this.#process!.kill('SIGCONT')
    }
    await this.#ended
    if (this.#process?.pid !== undefined) this.#clock?.clearUpAfter(this.#process.pid)
  }

  /** A new process on the same port: empty, or with all that it had. */
  async restart(data: 'lost' | 'kept' = 'lost'): Promise<void> {
    if (data === 'kept') await this.command('SAVE')
    await this.stop()
    if (data === 'lost') await this.forget()
    await this.start()
  }

  /** Removes what a stopped one left on the disk. */
  async forget(): Promise<void> {
    for (const name of ['dump.rdb', 'appendonlydir']) await rm(join(this.directory, name), { recursive: true, force: true })
  }

  /** It stands still with all its connections: the kernel still accepts for it, and nothing is answered. */
  pause(): void {
    this.#process!.kill('SIGSTOP')
  }

  resume(): void {
    this.#process!.kill('SIGCONT')
  }

  /** Keeps our event loop from turning until replies to all that it was sent are written. */
  standStillUntilServed(): void {
    // It writes the replies of one turn of its own event loop together; the second PING is sent when the first is answered.
    execFileSync('redis-cli', ['-s', this.#socketPath, '-r', '2', 'PING'])
  }

  /** Moves its wall clock, and so its `TIME` and what expires, forward or back; `hasSteppingClock` must be set. */
  stepClock(ms: number): void {
    if (this.#clock === undefined) throw new Error('this Redis was started without a stepping clock')
    this.#clock.step(ms)
  }

  async close(): Promise<void> {
    await this.stop()
    await rm(this.directory, { recursive: true, force: true })
  }

  async #connected(use: (connection: RespConnection) => Promise<RedisReply>): Promise<RedisReply> {
    const connection = await RespConnection.connect({ path: this.#socketPath })
    try {
      if (this.#options.password !== undefined) await connection.command('AUTH', this.#options.password)
      return await use(connection)
    } finally {
      connection.close()
    }
  }

  get #args(): string[] {
    const { args = [], configFile, password } = this.#options
    return [
      ...(configFile === undefined ? [] : [join(this.directory, configFile)]),
      ...['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.directory, '--unixsocket', this.#socketPath],
      ...['--save', '', '--appendonly', 'no'],
      ...(password === undefined ? [] : ['--requirepass', password]),
      ...args,
    ]
  }

  get #socketPath(): string {
    return join(this.directory, 'socket')
  }

  /** Not while it does not listen, nor while it loads its data. */
  async #responds(): Promise<boolean> {
    return this.command('PING').then(
      (reply) => reply === 'PONG',
      () => false,
    )
  }
}

/** Where the kernel can do it, a test run that is killed takes its servers with it. */
function dyingWithUs(program: string, args: readonly string[]): [program: string, args: readonly string[]] {
  return process.platform === 'linux' ? ['setpriv', ['--pdeathsig', 'KILL', program, ...args]] : [program, args]
}
