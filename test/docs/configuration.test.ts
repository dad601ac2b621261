import { expect, test } from 'vitest'
import { SETTINGS, type Setting } from '../../src/config/settings.ts'
import { codeWords, readText, tableRows } from './markdown.ts'

test('docs/configuration.md lists every setting with its option and default, in the order of the source', () => {
  const rows = tableRows(readText('docs/configuration.md'), ['Variable', 'Option', 'Default', 'Meaning'])
  const listed = rows.map(([env, flag, fallback]) => ({ env: only(env!), flag: only(flag!), fallback: only(fallback!) }))
  const settings = Object.values<Setting<unknown>>(SETTINGS).map(({ env, flag, fallback }) => ({
    env,
    flag: flag === undefined ? undefined : `--${flag}`,
    fallback,
  }))
  expect(listed).toEqual(settings)
})

function only(cell: string): string | undefined {
  return codeWords(cell)[0]
}
