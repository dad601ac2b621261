import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, readText } from '../docs/markdown.ts'
import { describeWithRegistry, run, succeed } from '../support/packaging/npm.ts'
import { sourceCopy } from '../support/packaging/source-copy.ts'
import { thisTest } from '../support/service/running.ts'
import { until } from '../support/until.ts'

describeWithRegistry('a fresh clone', () => {
  test('`npm ci --omit=dev` succeeds and says how to build; that builds and leaves no compiler behind', { timeout: 600_000 }, async () => {
    const clone = await sourceCopy(thisTest)
    const production = await run(clone, 'npm', 'ci', '--omit=dev')
    expect(production.status, production.stderr).toBe(0)
    expect(existsSync(join(clone, 'dist'))).toBe(false)

    const advice = /^To build.*: (npm .*)$/m.exec(production.stderr)![1]!
    const [, serve] = codeBlocks(readText('docs/installation.md'), 'sh')
      .map((block) => block.split('\n'))
      .find(([first]) => first === advice)!
    await succeed(clone, 'sh', '-c', advice)
    expect(existsSync(join(clone, 'node_modules/typescript'))).toBe(false)
    expect(await succeed(clone, process.execPath, 'program/edge.js', 'validate', 'examples/quickstart.json')).toMatch(/: ok\b/)
    await copyFile(join(clone, 'examples/tenants.yaml'), join(clone, 'limits.yaml'))
    expect(await serves(clone, serve!)).toBe(0)

    // With dist/ there, production installs keep it.
    await succeed(clone, 'npm', 'ci', '--omit=dev')
    expect(existsSync(join(clone, 'program/edge.js'))).toBe(true)
  })
})

/** The exit status of this command, which is told to stop as soon as it listens. */
async function serves(folder: string, command: string): Promise<number | null> {
  const env = { ...process.env, EDGE_PORT: '0', EDGE_HOST: '127.0.0.1', EDGE_LOG_LEVEL: 'warn' }
  const service = spawn('sh', ['-c', `exec ${command}`], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = new Promise<number | null>((resolve) => service.on('close', resolve))
  let printed = ''
  service.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString()
  })
  await until(() => /listen/.test(printed) || service.exitCode !== null)
  service.kill('SIGTERM')
  return exited
}
