import type { KeyJson, KeyPage } from '../../admin/api/key-types.ts'
import type { ControlHandlers } from '../../control/control-calls.ts'
import { type IssuedKey, keyStatus } from './issued-key.ts'
import type { KeyControl } from './key-control.ts'

type KeyCallName = 'list_keys' | 'find_key' | 'create_key' | 'change_key' | 'revoke_key' | 'acknowledge_keys'

/** Answers what workers ask the main thread about issued keys. */
export function keyCalls(control: KeyControl, wallMs: () => number): Pick<ControlHandlers, KeyCallName> {
  const jsonOf = (key: IssuedKey): KeyJson => keyJson(key, control.isDurable, wallMs())
  return {
    list_keys: ({ labels, after, limit }) => {
      const { keys, next } = control.page(labels, after, limit)
      const page: KeyPage = { next: next ?? null, keys: keys.map(jsonOf) }
      return JSON.stringify(page)
    },
    find_key: (id) => jsonOf(control.find(id)),
    create_key: async (order) => {
      const { key, text } = await control.create(order)
      return { ...jsonOf(key), ...(text !== undefined && { key: text }) }
    },
    change_key: async (order) => jsonOf(await control.change(order)),
    revoke_key: (order) => control.revoke(order),
    acknowledge_keys: async (author) => {
      await control.acknowledgeLoss(author)
      return undefined
    },
  }
}

function keyJson(key: IssuedKey, isDurable: boolean, wallMs: number): KeyJson {
  const { id, digest, labels, createdMs, actor, reason, expiresMs, edit, momentMs } = key
  return {
    id,
    digest: digest.toString('base64url'),
    labels,
    status: keyStatus(key, wallMs),
    created_at: timeText(createdMs),
    actor,
    reason,
    expires_at: expiresMs === undefined ? null : timeText(expiresMs),
    edited: edit === undefined ? null : { actor: edit.actor, reason: edit.reason, at: timeText(momentMs) },
    durable: isDurable,
  }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
