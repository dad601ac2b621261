import { execFile } from 'node:child_process'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { describeWith } from '../support/describe-with.ts'
import { CHAT } from '../support/llm/llm-proxy.ts'
import { command } from '../support/service/command.ts'
import { documentedLlm, documentedUsage, playMonth, SHOWN_DIRECTORY, USAGE_PAGE } from '../support/usage/documented-usage.ts'
import { missingPostgresql, runningPostgresql } from '../support/usage/postgresql.ts'
import { codeBlocks } from './markdown.ts'

const run = promisify(execFile)
/** What a client may call a model, to break out of a column, a line or a statement. */
const HOSTILE_MODELS = [
  '"\\"\t\\t\\N',
  "'); DROP TABLE usage_line; --",
  '\\.',
  'a\nb\r\n\u2028é\u0001\u0002',
  'a\0b\ud800',
  '{}',
  '\\u0000',
]

describeWith(missingPostgresql, 'docs/usage.md and PostgreSQL', () => {
  test('the SQL of the page loads every line, and its report is that of edge usage', async () => {
    const documented = await documentedUsage(await documentedLlm())
    const { proxy } = documented
    let requests = await playMonth(documented)
    for (const model of HOSTILE_MODELS) {
      const { status } = await proxy.post(CHAT, { model, messages: [], max_tokens: 9 }, documented.fieldsOf('support'))
      expect(status).toBe(200)
      requests++
    }
    await proxy.lines(requests)
    await proxy.edge.stop()
    await compressAll(proxy.directory)

    const env = { PATH: process.env['PATH'] ?? '', ...(await runningPostgresql()) }
    const section = USAGE_PAGE.split('\n## PostgreSQL\n')[1]!.split('\n## ')[0]!
    const [create, report] = codeBlocks(section, 'sql') as [string, string]
    const [load] = codeBlocks(section, 'sh') as [string]
    const query = async (sql: string, ...flags: string[]): Promise<string> =>
      (await run('psql', ['-v', 'ON_ERROR_STOP=1', ...flags, '-c', sql], { env })).stdout
    await query(create)
    const loaded = await run('sh', ['-ec', load.replaceAll(SHOWN_DIRECTORY, proxy.directory)], { env })
    expect(loaded.stdout).toBe(`COPY ${requests}\n`)
    const json = `SELECT coalesce(json_agg(row), '[]') FROM (${report.trim().replace(/;$/, '')}) AS row`
    const rows = JSON.parse(await query(json, '-At')) as SqlRow[]
    const own = await ownReport(proxy.directory)
    expect(rows.map(({ cost }) => cost)).toEqual(own.map(({ cost }) => cost))
    // The order of models that cost the same is not said.
    expect(sorted(rows)).toEqual(sorted(own))
  })
})

interface SqlRow {
  readonly team: string
  readonly model: string
  readonly requests: number
  readonly input: number
  readonly output: number
  readonly cost: number
}

/** The same of `edge usage`. */
async function ownReport(directory: string): Promise<SqlRow[]> {
  const { stdout } = await command('usage', '--from', '2026-11', '--to', '2026-12', '--by', 'caller:team,model', '--json', directory)
  const { rows } = JSON.parse(stdout) as { rows: (Omit<SqlRow, 'cost'> & { values: Record<string, string>; cost: string })[] }
  return rows.map(({ values, requests, input, output, cost }) => {
    return { team: values['caller:team']!, model: values['model']!, requests, input, output, cost: Number(cost) }
  })
}

function sorted(rows: readonly SqlRow[]): SqlRow[] {
  return rows.toSorted((a, b) => (a.team + a.model < b.team + b.model ? -1 : 1))
}

/** As the service does when an hour is over. */
async function compressAll(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    await writeFile(join(directory, `${name}.gz`), gzipSync(await readFile(join(directory, name))))
    await rm(join(directory, name))
  }
}
