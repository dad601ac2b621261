import { expect, test } from 'vitest'
import { SETTING_GROUPS, SETTINGS, unknownVariables } from '../../src/config/settings.ts'
import { codeWords, markdownFiles, readText, tableRows } from './markdown.ts'

test('docs/configuration.md lists every setting with its option and default, in the groups and the order of the source', () => {
  const [, ...sections] = readText('docs/configuration.md').split(/^## /m)
  const listed = sections.map((section) => ({
    title: section.slice(0, section.indexOf('\n')).replaceAll('`', ''),
    settings: tableRows(section, ['Variable', 'Option', 'Default', 'Meaning']).map(([env, flag, fallback]) => ({
      env: only(env!),
      flag: only(flag!),
      fallback: only(fallback!),
    })),
  }))
  const groups = SETTING_GROUPS.map(({ title, settings }) => ({
    title,
    settings: Object.values(settings).map(({ env, flag, fallback }) => ({
      env,
      flag: flag === undefined ? undefined : `--${flag}`,
      fallback,
    })),
  }))
  expect(listed).toEqual(groups)
})

test('every setting is in one group, and the settings are in the order of the groups', () => {
  expect(SETTING_GROUPS.flatMap(({ settings }) => Object.entries(settings))).toEqual(Object.entries(SETTINGS))
})

test('no page names a variable that edge would warn of', () => {
  const named = ['README.md', ...markdownFiles('docs')].flatMap((file) => readText(file).match(/\bEDGE_[A-Z_]*[A-Z]\b/g) ?? [])
  const unknown = unknownVariables(Object.fromEntries(named.map((name) => [name, '1'])))
  // One that was misspelled, in the reason for the warning.
  expect(unknown.map(({ name }) => name)).toEqual(['EDGE_REDIS_URI'])
})

function only(cell: string): string | undefined {
  return codeWords(cell)[0]
}
