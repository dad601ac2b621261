import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { ExplanationJson } from '../../src/admin/api/types.ts'
import { ApiFailure, ask } from '../api.ts'
import { type AskedRequest, explainBody, FieldError, linkTo, requestIn } from '../explain/asked-request.ts'
import { Destination } from '../explain/destination.tsx'
import { type DraftedRequest, takeDraftedRequest } from '../explain/drafted-request.ts'
import { ExplainedPolicies } from '../explain/policies.tsx'
import { Verdict } from '../explain/verdict.tsx'
import { address } from '../navigation.ts'
import { Field } from '../parts/field.tsx'
import { Form } from '../parts/form.tsx'
import { Notice } from '../parts/notice.tsx'
import { Panel } from '../parts/panel.tsx'
import { status } from '../status.ts'

interface Explained {
  readonly request: AskedRequest
  readonly explanation: ExplanationJson
}

/** A form for a request, and what it would get now. Asking takes nothing from any counter. */
export function ExplainView() {
  const { parameters } = address.value
  const drafted = useMemo(takeDraftedRequest, [])
  const begun = parameters.size === 0 && drafted !== undefined ? drafted : { request: requestIn(parameters), missing: [] }
  // The key makes another link to this view fill in its own request.
  return <Explain key={parameters.toString()} begun={begun} />
}

function Explain({ begun: { request: initial, missing } }: { readonly begun: DraftedRequest }) {
  const explained = useSignal<Explained | undefined>(undefined)
  const errors = useSignal<Partial<Record<keyof AskedRequest, string>>>({})
  const result = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (explained.value !== undefined) result.current?.scrollIntoView({ block: 'nearest' })
  }, [explained.value])
  const explain = async (values: FormData): Promise<void> => {
    errors.value = {}
    const text = (name: keyof AskedRequest): string => String(values.get(name) ?? '')
    const request = { method: text('method'), uri: text('uri'), host: text('host'), headers: text('headers'), body: text('body') }
    try {
      explained.value = { request, explanation: await ask<ExplanationJson>('POST', 'explain', explainBody(request)) }
    } catch (error) {
      const { field, message } = fieldError(error)
      errors.value = { [field]: message }
      explained.value = undefined
    }
  }
  const { method, uri, host, headers, body } = errors.value
  return (
    <>
      <Panel title="Request" isWide>
        {missing.length > 0 && (
          <Notice tone="accent">
            This caller's {missing.join(', ')} could not be filled in. Add what the client sends, or the answer is another one.
          </Notice>
        )}
        <Form action="Explain" onSubmit={explain}>
          <div class="request-line">
            <Field label="Method" error={method}>
              {(control) => <input {...control} name="method" defaultValue={initial.method} required list="methods" autocomplete="off" />}
            </Field>
            <Field label="URI" error={uri}>
              {(control) => (
                <input {...control} name="uri" defaultValue={initial.uri} required placeholder="/api/x?page=1" autocomplete="off" />
              )}
            </Field>
            <Field label="Host" error={host}>
              {(control) => <input {...control} name="host" defaultValue={initial.host} placeholder="optional" autocomplete="off" />}
            </Field>
          </div>
          <datalist id="methods">
            {['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'].map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
          <div class="request-rest">
            <Field label="Header fields" error={headers} hint="One per line, as Name: value. X-Forwarded-For gives the client address.">
              {(control) => (
                <textarea {...control} class="mono" name="headers" rows={4} defaultValue={initial.headers} spellcheck={false} />
              )}
            </Field>
            <Field
              label="Body"
              error={body}
              hint={status.value?.mode === 'reverse_proxy' ? 'Up to 64 KiB for the whole request.' : 'Not read in decision_service.'}
            >
              {(control) => <textarea {...control} class="mono" name="body" rows={4} defaultValue={initial.body} spellcheck={false} />}
            </Field>
          </div>
        </Form>
      </Panel>
      <div ref={result} class="explained" aria-live="polite">
        {explained.value !== undefined && (
          <>
            <Verdict explanation={explained.value.explanation} link={linkTo(explained.value.request)} />
            {explained.value.explanation.backend !== undefined && <Destination backend={explained.value.explanation.backend} />}
            <ExplainedPolicies policies={explained.value.explanation.policies} />
          </>
        )}
      </div>
    </>
  )
}

/** Finds the field that an error is about by the beginning of the API's message. Rethrows an error that is about none. */
function fieldError(error: unknown): { field: keyof AskedRequest; message: string } {
  if (error instanceof FieldError) return error
  const [, field, rest] = (error instanceof ApiFailure && /^(method|uri|host|headers|body)\b[^:]*: (.*)$/s.exec(error.message)) || []
  if (field === undefined) throw error
  return { field: field as keyof AskedRequest, message: field === 'headers' ? (error as ApiFailure).message : rest! }
}
