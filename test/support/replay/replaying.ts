import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { vi } from 'vitest'
import type { ReplayReport } from '../../../src/offline/replay/replay-report.ts'
import { command, type Said } from '../service/command.ts'
import { type Owner, scratchDirectory, thisTest } from '../service/running.ts'

/** Files by name; a bundle's policies are written as a bundle. */
export type ReplayFiles = Readonly<Record<string, string | Buffer | readonly object[]>>

/** `edge replay` on files, in this process. `args` are names of files and options. */
export async function replaying(
  files: ReplayFiles,
  args: readonly string[],
  owner: Owner = thisTest,
): Promise<Said & { directory: string }> {
  const directory = await scratchDirectory(owner)
  await writeFiles(directory, files)
  const paths = args.map((arg) => (arg in files || arg.endsWith('.html') ? join(directory, arg) : arg))
  const said = await withSmallStore(() => command('replay', ...paths))
  const clean = (text: string): string => text.replaceAll(`${directory}/`, '')
  return { status: said.status, stdout: clean(said.stdout), stderr: clean(said.stderr), directory }
}

/** Memory for counters is cleared at the start, and tests have few callers. */
async function withSmallStore<Result>(run: () => Promise<Result>): Promise<Result> {
  vi.stubEnv('EDGE_STORE_SIZE', '1m')
  try {
    return await run()
  } finally {
    vi.unstubAllEnvs()
  }
}

/** The same with --json, as an object. */
export async function replayed(files: ReplayFiles, args: readonly string[], owner: Owner = thisTest): Promise<ReplayReport> {
  const { status, stdout, stderr } = await replaying(files, [...args, '--json'], owner)
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as ReplayReport
}

export async function writeFiles(directory: string, files: ReplayFiles): Promise<void> {
  for (const [i, [name, content]] of Object.entries(files).entries()) {
    const isPlain = typeof content === 'string' || Buffer.isBuffer(content)
    await writeFile(join(directory, name), isPlain ? content : JSON.stringify({ bundle_version: i + 1, policies: content }))
  }
}
