import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../docs/markdown.ts'
import { scratchDirectory, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import { PROMETHEUS, RULE_FILES } from './deployed.ts'

const isInstalled = ['promtool', 'prometheus'].every((program) => spawnSync(program, ['--version']).status === 0)

export const missingPrometheus = isInstalled ? undefined : 'prometheus and promtool are not installed: sh scripts/install-test-parts.sh'

const RULES_DIRECTORY = join(ROOT, PROMETHEUS)

/** What promtool prints; throws where it finds a fault. */
export async function promtool(...args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)('promtool', args, { cwd: RULES_DIRECTORY })
  return stdout + stderr
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: readonly [number, string]
}

interface RulesResponse {
  readonly data: { readonly groups: readonly { readonly rules: readonly ScrapedRule[] }[] }
}

export interface ScrapedRule {
  readonly name: string
  readonly health: string
  readonly lastError?: string
  readonly state?: string
}

/** A Prometheus with our rules that scrapes this port twice a second, for as long as the test runs. */
export class ScrapingPrometheus {
  readonly #url: string

  private constructor(url: string) {
    this.#url = url
  }

  static async start(target: number): Promise<ScrapingPrometheus> {
    const directory = await scratchDirectory()
    const port = await freePort()
    const config = {
      global: { scrape_interval: '500ms', evaluation_interval: '500ms' },
      rule_files: RULE_FILES.map((file) => join(RULES_DIRECTORY, file)),
      scrape_configs: [{ job_name: 'edge', static_configs: [{ targets: [`127.0.0.1:${target}`] }] }],
    }
    const file = join(directory, 'prometheus.yml')
    await mkdir(join(directory, 'data'))
    await writeFile(file, JSON.stringify(config)) // which is YAML
    const args = [`--config.file=${file}`, `--storage.tsdb.path=${join(directory, 'data')}`, `--web.listen-address=127.0.0.1:${port}`]
    const child = spawn('prometheus', args, { stdio: 'ignore' })
    thisTest.onTestFinished(() => ended(child))
    const prometheus = new ScrapingPrometheus(`http://127.0.0.1:${port}`)
    await until(() => prometheus.#isReady())
    return prometheus
  }

  async query(expr: string): Promise<Sample[]> {
    const response = await fetch(`${this.#url}/api/v1/query?${new URLSearchParams({ query: expr })}`)
    const { status, error, data } = (await response.json()) as { status: string; error?: string; data?: { result: Sample[] } }
    if (status !== 'success') throw new Error(`${expr}: ${error}`)
    return data!.result
  }

  async rules(): Promise<ScrapedRule[]> {
    const { data } = (await (await fetch(`${this.#url}/api/v1/rules`)).json()) as RulesResponse
    return data.groups.flatMap(({ rules }) => rules)
  }

  async #isReady(): Promise<boolean> {
    return fetch(`${this.#url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  }
}

async function ended(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once('exit', resolve))
  if (child.exitCode !== null) return
  child.kill('SIGTERM')
  await exited
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
