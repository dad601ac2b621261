import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { delimiter } from 'node:path'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

/** Debian installs some where not every user looks. */
const ENV = { ...process.env, PATH: [process.env['PATH'] ?? '', '/usr/sbin', '/usr/local/sbin'].join(delimiter) }

export interface GatewayCommand {
  readonly program: string
  readonly args: readonly string[]
  /** Where its configuration is. */
  readonly directory: string
  /** Where it will listen. */
  readonly port: number
  readonly env?: Readonly<Record<string, string>>
  /** Where listening is not enough. */
  readonly isReady?: () => Promise<boolean>
}

/** What to say where this program does not run. */
export function missingUnless(program: string, args: readonly string[], name = program): string | undefined {
  return spawnSync(program, args, { env: ENV }).status === 0 ? undefined : `${name} is not installed: sh scripts/install-test-parts.sh`
}

/** Runs it for as long as the test runs, and waits until it is ready. Returns its port. */
export async function runningGateway(command: GatewayCommand, owner: Owner = thisTest): Promise<number> {
  const { program, args, directory, port, env = {}, isReady = async () => true } = command
  const child = spawn(program, args, { cwd: directory, env: { ...ENV, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'exit')
  let complaints = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => {
      complaints += text
    })
  }
  owner.onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${program} does not start: ${complaints}`)
    return (await isListening(port)) && (await isReady())
  })
  return port
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}
