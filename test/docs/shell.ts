import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { describeWith } from '../support/describe-with.ts'

const run = promisify(execFile)

/** Tests of commands that call curl. */
export function describeWithCurl(name: string, body: () => void): void {
  const isInstalled = spawnSync('curl', ['--version']).status === 0
  describeWith(isInstalled ? undefined : 'curl is not installed', name, body)
}

/** What the commands of a page print when the service listens on this port. */
export async function printed(commands: string, port: number): Promise<string> {
  const { stdout } = await run('sh', ['-c', commands.replaceAll('localhost:8080', `127.0.0.1:${port}`)])
  return stdout.trimEnd()
}
