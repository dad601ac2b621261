import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { command } from '../support/service/command.ts'
import { scratchDirectory } from '../support/service/running.ts'
import { codeBlocks, readText } from './markdown.ts'

const [CASES, RECORDED] = readText('docs/testing-policies.md').split('## Recorded traffic') as [string, string]

test("the page's logs come to what the page shows", async () => {
  const directory = await scratchDirectory()
  const [bundle] = codeBlocks(CASES, 'yaml') as [string]
  const [shown] = codeBlocks(RECORDED, 'sh') as [string]
  const files = {
    'limits.yaml': bundle,
    'next.yaml': bundle.replace('bundle_version: 1', 'bundle_version: 2').replace('burst: 5', 'burst: 2'),
    'traffic.jsonl': codeBlocks(RECORDED, 'json')[0]!,
    'access.log': codeBlocks(RECORDED, 'log')[0]!,
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  const [, name, ...args] = shown.trim().split(' ') as [string, string, ...string[]]
  const { status, stdout, stderr } = await command(name, ...args.map((arg) => (arg in files ? join(directory, arg) : arg)))
  expect(status).toBe(0)
  // The page says so of its cases.
  expect(stderr).toMatch(/^(?:\S+: warning: \S+: a client that leaves out header:x-api-key is not limited: .*\n){2}$/)
  expect(stdout.replaceAll(`${directory}/`, '')).toBe(codeBlocks(RECORDED, 'text')[0])
})
