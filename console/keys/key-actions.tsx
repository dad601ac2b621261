import { useSignal } from '@preact/signals'
import type { KeyChangeRequest, KeyJson, KeyLabelsJson, RevokedKey } from '../../src/admin/api/key-types.ts'
import { ask } from '../api.ts'
import { ReasonField, readReason } from '../overrides/reason-field.tsx'
import { ConfirmDialog } from '../parts/confirm-dialog.tsx'
import { Facts } from '../parts/facts.tsx'
import { Moment } from '../parts/time.tsx'
import { ExpiryField, expiryTime, readExpiry } from './expiry-field.tsx'
import { KeyEnd, KeyLabels, labelText } from './key-facts.tsx'
import { keyProblems } from './key-form.tsx'
import { LabelFields, readLabels } from './label-fields.tsx'

interface KeyDialogProps {
  readonly keyJson: KeyJson
  /** Called with a sentence that describes the outcome. */
  readonly onDone: (sentence: string) => Promise<void>
  readonly onClose: () => void
}

/** Changes the labels of a key, when it expires, or both, after a preview. */
export function ChangeKey({ keyJson, suggested, onDone, onClose }: KeyDialogProps & { readonly suggested: readonly string[] }) {
  const { id, labels, expires_at: end } = keyJson
  const problems = useSignal<ReturnType<typeof keyProblems>>({})
  const previewed = useSignal<KeyChangeRequest | undefined>(undefined)
  const preview = async (form: FormData): Promise<void> => {
    problems.value = {}
    previewed.value = undefined
    try {
      const body = readChange(form, keyJson)
      if (body.labels === undefined && body.expires_at === undefined) throw new Error('Nothing would change.')
      previewed.value = body
    } catch (error) {
      problems.value = keyProblems(error)
    }
  }
  const change = async (): Promise<void> => {
    const changed = previewed.value!
    try {
      await ask<KeyJson>('PATCH', `keys/${id}`, changed)
    } catch (error) {
      // What is about a field is shown there, below the preview, which closes.
      problems.value = keyProblems(error)
      return
    }
    await onDone('The key is changed.')
    onClose()
  }
  return (
    <>
      <ConfirmDialog title={`Change key ${id}`} action="Preview…" staysOpen onConfirm={preview} onClose={onClose}>
        <LabelFields labels={labels} suggested={suggested} error={problems.value.labels} />
        <ExpiryField error={problems.value.expires} current={end} />
        <ReasonField error={problems.value.reason} />
      </ConfirmDialog>
      {previewed.value !== undefined && (
        <ConfirmDialog title="Change the key?" action="Change it" onConfirm={change} onClose={() => (previewed.value = undefined)}>
          <ChangePreview keyJson={keyJson} change={previewed.value} />
        </ConfirmDialog>
      )}
    </>
  )
}

/** Returns only what differs from the key as it is. */
function readChange(form: FormData, { labels: current, expires_at: currentEnd }: KeyJson): KeyChangeRequest {
  const labels = readLabels(form)
  const end = readExpiry(form)
  const names = new Set([...Object.keys(current), ...Object.keys(labels)])
  const isRelabelled = [...names].some((name) => current[name] !== labels[name])
  return {
    ...(isRelabelled && { labels }),
    ...(end !== undefined && end !== currentEnd && { expires_at: end }),
    reason: readReason(form),
  }
}

function ChangePreview({ keyJson, change }: { readonly keyJson: KeyJson; readonly change: KeyChangeRequest }) {
  const { labels, expires_at: end } = change
  return (
    <>
      <Facts
        facts={[
          [
            'Labels',
            labels === undefined ? <KeyLabels labels={keyJson.labels} /> : <LabelChanges before={keyJson.labels} after={labels} />,
          ],
          [
            'Expires',
            end === undefined ? (
              <KeyEnd end={keyJson.expires_at} />
            ) : (
              <>
                <del>
                  <End end={keyJson.expires_at} />
                </del>{' '}
                →{' '}
                <ins>
                  <End end={expiryTime(end)} />
                </ins>
              </>
            ),
          ],
        ]}
      />
      {labels !== undefined && (
        <p>
          From then on its requests are counted by the new labels. What was spent stays with the old ones. The key itself stays the same.
        </p>
      )}
    </>
  )
}

function End({ end }: { readonly end: string | null }) {
  return end === null ? <>never</> : <Moment at={end} />
}

function LabelChanges({ before, after }: { readonly before: KeyLabelsJson; readonly after: KeyLabelsJson }) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
  return (
    <ul class="label-changes">
      {names.map((name) => {
        const [old, next] = [before[name], after[name]]
        if (old === next) return <li key={name}>{labelText(name, next!)}</li>
        return (
          <li key={name}>
            {old !== undefined && <del>{labelText(name, old)}</del>}
            {old !== undefined && next !== undefined && ' → '}
            {next !== undefined && <ins>{labelText(name, next)}</ins>}
          </li>
        )
      })}
    </ul>
  )
}

/** Asks for a reason, then revokes a key for good. */
export function RevokeKey({ keyJson: { id, labels }, onDone, onClose }: KeyDialogProps) {
  const revoke = async (form: FormData): Promise<void> => {
    const { streams_ended: ended } = await ask<RevokedKey>('DELETE', `keys/${id}?${new URLSearchParams({ reason: readReason(form) })}`)
    const streams = ended === 1 ? '1 stream of it was ended.' : `${ended} streams of it were ended.`
    await onDone(ended === 0 ? 'The key is revoked.' : `The key is revoked. ${streams}`)
  }
  return (
    <ConfirmDialog title={`Revoke key ${id}?`} action="Revoke it" isDangerous onConfirm={revoke} onClose={onClose}>
      <KeyLabels labels={labels} />
      <p>
        From then on nobody is known by this key, and its streams and other requests under way are ended, in a fleet within two seconds. It
        cannot be undone: a revoked key stays revoked.
      </p>
      <ReasonField isFirst />
    </ConfirmDialog>
  )
}
