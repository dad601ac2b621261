import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { until } from '../until.ts'
import { Cli, type ProcessOptions } from './cli.ts'
import { Edge, type EdgeOptions } from './edge.ts'

/** The test at whose end things are cleared away. Tests that run side by side name themselves; one alone is known. */
export interface Owner {
  onTestFinished(end: () => void | Promise<void>): void
}
export type Environment = Readonly<Record<string, string>>

export const thisTest: Owner = { onTestFinished }

/** The service in this process, for as long as the test runs. */
export async function running(options: EdgeOptions = {}, owner = thisTest): Promise<Edge> {
  const edge = await Edge.start(options)
  owner.onTestFinished(() => edge.stop())
  return edge
}

/** `edge serve` in a process of its own, for as long as the test runs; with one worker unless the test asks for more. */
export async function serving(
  env: Environment = {},
  args: readonly string[] = [],
  owner = thisTest,
  options: ProcessOptions = {},
): Promise<Cli> {
  const cli = new Cli(['serve', ...args], { EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_WORKERS: '1', ...env }, options)
  endWithTest(cli, owner)
  let hasEnded = false
  void cli.exited.then(() => {
    hasEnded = true
  })
  await until(() => hasEnded || cli.stdout.includes('listens'))
  return cli
}

/** A command that ends by itself. */
export async function finished(args: readonly string[], env: Environment = {}, owner = thisTest): Promise<Cli & { status: number }> {
  const cli = new Cli(args, env)
  endWithTest(cli, owner)
  return Object.assign(cli, { status: await cli.exited })
}

export async function scratchDirectory(owner = thisTest): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'edge-test-'))
  owner.onTestFinished(() => rm(directory, { recursive: true }))
  return directory
}

function endWithTest(cli: Cli, owner: Owner): void {
  owner.onTestFinished(async () => {
    cli.process.kill('SIGKILL')
    await cli.exited
  })
}
