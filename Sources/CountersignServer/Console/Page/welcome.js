// The next steps where nothing is recorded yet.

import {copyButton, el} from './elements.js'

/// A service's address, as a caller writes it.
const origin = new URL('.', document.baseURI).href.replace(/\/$/, '')

const command = `curl -sS ${origin}/v1/validations \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{"user_id":"my-first-user","receipt_data":"…"}'`

export const notificationsURL = `${origin}/v1/notifications/app-store`

export function nextSteps() {
  return el('section', {class: 'card', 'aria-label': 'The next steps'}, el('h2', null, 'Nothing is recorded yet'),
    el('p', null, 'Three steps to the first customer on this page:'),
    el('ol', {class: 'steps'},
      el('li', null, el('p', null, 'See what is still missing, on the machine of the service:'),
        code('countersign doctor')),
      el('li', null, el('p', null, 'Post a purchase: a receipt of your app’s, or a signed transaction of StoreKit 2. ' +
        '$KEY is a key of the role “service”.'), code(command)),
      el('li', null, el('p', null, 'Have Apple report renewals and refunds: in App Store Connect, under App Information, ' +
        'the URL for App Store Server Notifications, version 2, is'), code(notificationsURL))),
    el('p', {class: 'soft'}, 'The documentation’s page “Your own app, in ten minutes” (docs/your-app.md) leads through it.'))
}

const code = (text) => el('div', {class: 'code'}, el('pre', null, el('code', null, text)), copyButton(text, `Copy: ${text}`))
