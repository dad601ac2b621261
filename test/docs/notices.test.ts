import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const ROOT = new URL('../../', import.meta.url)
const read = (file: string): string => readFileSync(new URL(file, ROOT), 'utf8')
const NOTICES = read('THIRD-PARTY-NOTICES')

test('THIRD-PARTY-NOTICES is what `npm run notices` writes', () => {
  expect(NOTICES).toBe(read('program/THIRD-PARTY-NOTICES'))
})

test('it names every package of which the program contains code, by what the source maps say', () => {
  const maps = readdirSync(new URL('program/', ROOT)).filter((name) => name.endsWith('.map'))
  const sources = maps.flatMap((name) => (JSON.parse(read(`program/${name}`)) as { sources: string[] }).sources)
  const names = new Set(sources.flatMap((source) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source)?.[1] ?? []))
  expect(names).toContain('zod')
  for (const name of names) expect(NOTICES).toMatch(new RegExp(`^${name} \\d\\S+ \\(\\S+\\)$`, 'm'))
})

test("it names those of the operators' page, and the page says where they are", () => {
  for (const name of ['preact', '@preact/signals', '@preact/signals-core', 'uplot']) {
    const { version, license } = JSON.parse(read(`node_modules/${name}/package.json`)) as { version: string; license: string }
    expect(NOTICES).toContain(`\n${name} ${version} (${license})\n`)
    expect(NOTICES).toContain(read(`node_modules/${name}/LICENSE`).trim())
  }
  expect(read('program/console/console.js')).toMatch(/^\/\*! For licences see THIRD-PARTY-NOTICES /)
})

test('every package has a text, and the country database its attribution', () => {
  expect(NOTICES).not.toContain('has no text')
  for (const words of ['Number Resource Organization (NRO), https://www.nro.net/', 'https://creativecommons.org/licenses/by/4.0/'])
    expect(NOTICES).toContain(words)
})

test('it is part of the npm package', () => {
  expect((JSON.parse(read('package.json')) as { files: string[] }).files).toContain('THIRD-PARTY-NOTICES')
})
