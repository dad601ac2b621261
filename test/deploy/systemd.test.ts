import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { unknownVariables } from '../../src/config/settings.ts'
import { readText } from '../docs/markdown.ts'
import { finished } from '../support/service/running.ts'

const SETTINGS = Object.fromEntries(
  Array.from(readText('deploy/systemd/edge.env').matchAll(/^(\w+)=(.*)$/gm), ([, name, value]) => [name!, value!]),
)

test('the settings of the unit are valid, and all of them are settings', () => {
  expect(readConfig(SETTINGS, {})).toMatchObject({ ok: true })
  expect(unknownVariables(SETTINGS)).toEqual([])
})

test('its bundle is valid, and refuses nobody', async () => {
  const { status, stdout } = await finished(['validate', 'deploy/systemd/bundle.yaml'])
  expect([status, stdout]).toEqual([0, expect.stringMatching(/: ok\b/)])
  expect(readText('deploy/systemd/bundle.yaml').match(/mode: \w+/g)).toEqual(['mode: shadow'])
})

test('it writes only where the unit lets it, and the unit knows of messages that a child process sends', () => {
  const unit = readText('deploy/systemd/edge.service')
  expect(SETTINGS['EDGE_STATE_FILE']).toMatch(/^\/var\/lib\/edge\//)
  for (const line of ['StateDirectory=edge', 'ProtectSystem=strict', 'Type=notify', 'NotifyAccess=all', 'User=edge'])
    expect(unit).toMatch(new RegExp(`^${line}$`, 'm'))
})
