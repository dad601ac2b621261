import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Owner, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

const run = promisify(execFile)
/** PostgreSQL refuses to run as root; `nobody` has this number everywhere. */
const NOBODY = 65_534
const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}

/** Where Debian puts the newest server; undefined if there is none. */
function programs(): string | undefined {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : []
  return versions.map((version) => join(root, version, 'bin')).find((folder) => existsSync(join(folder, 'initdb')))
}

export const missingPostgresql =
  programs() === undefined ? 'PostgreSQL not installed; on Debian: sh scripts/install-test-parts.sh' : undefined

/** A PostgreSQL of its own in a temporary folder, without a port, for as long as the test runs. Returns the settings of its clients. */
export async function runningPostgresql(owner: Owner = thisTest): Promise<Readonly<Record<string, string>>> {
  // Not below a folder of the test run, which only its own user may enter.
  const directory = await mkdtemp('/tmp/edge-postgresql-')
  owner.onTestFinished(() => rm(directory, { recursive: true }))
  if (asUser.uid !== undefined) await chown(directory, asUser.uid, asUser.gid)
  const [bin, data] = [programs()!, join(directory, 'data')]
  const args = ['-D', data, '-U', 'edge', '--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8', '--no-sync']
  await run(join(bin, 'initdb'), args, { ...asUser, cwd: directory })
  const flags = ['-D', data, '-k', directory, '-c', 'listen_addresses=', '-c', 'fsync=off']
  const server = spawn(join(bin, 'postgres'), flags, { ...asUser, cwd: directory, stdio: ['ignore', 'ignore', 'pipe'] })
  owner.onTestFinished(() => ended(server))
  let log = ''
  server.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  await until(() => {
    if (server.exitCode !== null) throw new Error(`PostgreSQL has ended: ${log}`)
    return log.includes('ready to accept connections')
  })
  return { PGHOST: directory, PGUSER: 'edge', PGDATABASE: 'postgres' }
}

/** SIGINT: it ends its connections and itself. */
function ended(server: ChildProcess): Promise<void> | void {
  if (server.exitCode !== null) return
  return new Promise((resolve) => {
    server.once('close', () => resolve())
    server.kill('SIGINT')
  })
}
