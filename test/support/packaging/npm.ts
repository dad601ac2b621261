import { execFile, spawnSync } from 'node:child_process'
import { describeWith } from '../describe-with.ts'

export interface Finished {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/** Tests that install packages from the npm registry, whichever one npm is set up to use. */
export function describeWithRegistry(name: string, body: () => void): void {
  const canReach = spawnSync('npm', ['view', 'zod', 'version', '--fetch-retries=0', '--fetch-timeout=60000']).status === 0
  describeWith(canReach ? undefined : 'npm cannot reach its registry', name, body)
}

/** A program as a user would run it in this folder. Its exit status is part of the result. */
export function run(directory: string, program: string, ...args: string[]): Promise<Finished> {
  // npm and Node keep caches in TMPDIR: here they go away with the folder.
  const env = { ...environmentOutsideNpm(), TMPDIR: directory }
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd: directory, env }, (error, stdout, stderr) => {
      if (error !== null && typeof error.code !== 'number') reject(error)
      else resolve({ status: Number(error?.code ?? 0), stdout, stderr })
    })
  })
}

/** Like `run`, for what has to succeed. Returns what it printed. */
export async function succeed(directory: string, program: string, ...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await run(directory, program, ...args)
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} exited with ${status}:\n${stdout}${stderr}`)
  return stdout
}

/** Without what `npm test` says of this package; with how the user has set npm up. */
function environmentOutsideNpm(): NodeJS.ProcessEnv {
  const { NODE_ENV: _, npm_config_local_prefix: __, ...env } = process.env
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_(?!config_)/.test(name)))
}
