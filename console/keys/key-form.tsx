import { useSignal } from '@preact/signals'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import type { KeyLabelsJson, KeyRequest, NewKey } from '../../src/admin/api/key-types.ts'
import { ApiFailure, ask } from '../api.ts'
import { ReasonField, readReason } from '../overrides/reason-field.tsx'
import { useCopying } from '../parts/copying.ts'
import { Form } from '../parts/form.tsx'
import { Notice } from '../parts/notice.tsx'
import { ExpiryField, readExpiry } from './expiry-field.tsx'
import { KeyLabels, NOT_SAVED } from './key-facts.tsx'
import { LabelError, LabelFields, readLabels } from './label-fields.tsx'

/** Problems by the part of the form that they are about. */
type KeyProblems = Readonly<Partial<Record<'labels' | 'expires' | 'reason', string>>>

interface KeyFormProps {
  /** Labels to begin with. */
  readonly labels: KeyLabelsJson
  readonly suggested: readonly string[]
  readonly onIssued: (key: NewKey) => void
  readonly onCancel: () => void
}

/** Issues a key. A refusal by the API is shown at the field that it is about. */
export function KeyForm({ labels, suggested, onIssued, onCancel }: KeyFormProps) {
  const problems = useSignal<KeyProblems>({})
  const host = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => host.current!.querySelector('input')!.focus(), [])
  const submit = async (form: FormData): Promise<void> => {
    problems.value = {}
    try {
      const body: KeyRequest = { labels: readLabels(form), expires_at: readExpiry(form)!, reason: readReason(form) }
      onIssued(await ask<NewKey>('POST', 'keys', body))
    } catch (error) {
      problems.value = keyProblems(error)
    }
  }
  return (
    <div class="narrow" ref={host}>
      <Form
        action="Issue key"
        onSubmit={submit}
        aside={
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        }
      >
        <LabelFields labels={labels} suggested={suggested} error={problems.value.labels} />
        <ExpiryField error={problems.value.expires} />
        <ReasonField error={problems.value.reason} />
      </Form>
    </div>
  )
}

/** Finds the part of the form that an error is about. Rethrows an error that is about none. */
export function keyProblems(error: unknown): KeyProblems {
  const { message } = error as Error
  if (error instanceof LabelError) return { labels: message }
  if (!(error instanceof ApiFailure)) throw error
  if (error.code === 'bad_until') return { expires: message }
  if (error.code === 'missing_reason' || message.startsWith('reason:')) return { reason: message }
  if (message.startsWith('labels')) return { labels: message }
  throw error
}

interface IssuedDialogProps {
  readonly issued: NewKey
  /** Forgets the key. */
  readonly onClose: () => void
}

/**
 * Shows a key that was just issued: the only place where it ever appears. It is text and no field, because browsers keep what is in fields when a page is
 * loaded again, and it is gone with the dialog.
 */
export function IssuedDialog({ issued: { id, key, labels, durable }, onClose }: IssuedDialogProps) {
  const title = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  const shown = useRef<HTMLElement>(null)
  const { copy, outcome } = useCopying(key!, () => getSelection()!.selectAllChildren(shown.current!))
  useLayoutEffect(() => {
    dialog.current!.showModal()
    // A browser may keep a page that somebody left, to show it again when they come back.
    addEventListener('pagehide', onClose)
    return () => removeEventListener('pagehide', onClose)
  }, [])
  return (
    <dialog ref={dialog} class="issued" aria-labelledby={title} onClose={onClose}>
      <h2 id={title}>Key {id} is issued</h2>
      <p>Copy the key now. It is shown only here: when this dialog closes, nobody can read it again.</p>
      <code ref={shown} class="secret">
        {key}
      </code>
      <div class="actions">
        <button type="button" class="primary" autofocus onClick={copy}>
          Copy the key
        </button>
        <button type="button" onClick={() => dialog.current!.close()}>
          Done
        </button>
        <span class="quiet" role="status">
          {outcome}
        </span>
      </div>
      <KeyLabels labels={labels} />
      {!durable && <Notice tone="warn">This key is not saved. {NOT_SAVED}</Notice>}
    </dialog>
  )
}
