// Written by scripts/generate_types from the migrations. Do not edit.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[]

export type Database = {
  
  "public": {
          Tables: {
            "activity": {
                  Row: {
                    "changed_at": string,"id": string,"training_run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "changed_at"?: string,"id"?: string,"training_run_id"?: string | null
                  }
                  Update: {
                    "changed_at"?: string,"id"?: string,"training_run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "activity_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "activity_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "activity_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"agent_states": {
                  Row: {
                    "action": string | null,"chat": (number)[] | null,"created_at": string,"duration_ms": number | null,"environment_duration_ms": number | null,"id": string,"info": Json | null,"memory_summary": string | null,"messages": Json | null,"messages_from": number | null,"model_duration_ms": number | null,"model_response": Json | null,"observation": string | null,"reward": number | null,"rollout_id": string,"step_number": number,"thought": string | null,"training_run_id": string | null,"generations": {
              "advantages": (number)[] | null,
"agent_state_id": string,
"completion_ids": (number)[] | null,
"finish_reason": string | null,
"id": string,
"logprobs": (number)[] | null,
"mask": (boolean)[] | null,
"model": string | null,
"policy_version": number | null,
"position": number,
"prompt": (number)[] | null,
"prompt_ids": (number)[] | null,
"tokens_from": number | null,
"training_run_id": string | null
            } | null,"media": {
              "agent_state_id": string | null,
"bucket": string,
"checksum": string | null,
"content_type": string | null,
"created_at": string,
"duration_ms": number | null,
"height": number | null,
"id": string,
"kind": string,
"metadata": NonNullable<Json>,
"owner_id": string | null,
"path": string,
"rewound_at": string | null,
"rollout_id": string | null,
"size_bytes": number | null,
"timeline": number,
"training_run_id": string | null,
"width": number | null
            } | null,"observations": {
              "agent_state_id": string,
"id": string,
"kind": string,
"media_path": string | null,
"position": number,
"text": string | null,
"training_run_id": string | null
            } | null,"rollouts": {
              "agent": string | null,
"attempt": number,
"attempt_of": string | null,
"cache_key": string | null,
"cancel_requested_at": string | null,
"cost_usd": number | null,
"created_at": string,
"delete_requested": boolean,
"environment": string,
"episode_number": number | null,
"error": string | null,
"finished_at": string | null,
"group_id": string | null,
"id": string,
"input_tokens": number | null,
"lease_id": string | null,
"logs_path": string | null,
"max_attempts": number,
"metadata": NonNullable<Json>,
"model": string | null,
"output_tokens": number | null,
"owner_id": string | null,
"policy_version": number | null,
"priority": number,
"request": Json | null,
"result": Json | null,
"rewound_at": string | null,
"seed": number | null,
"source": string,
"started_at": string | null,
"status": string,
"status_change_id": string | null,
"status_message": string | null,
"step": number | null,
"step_count": number | null,
"task_description": string | null,
"task_id": string | null,
"timeline": number,
"total_reward": number | null,
"training_run_id": string | null,
"updated_at": string,
"video_path": string | null,
"worker_id": string | null
            } | null,"tool_calls": {
              "agent_state_id": string,
"created_at": string,
"error_message": string | null,
"execution_time_ms": number | null,
"id": string,
"position": number,
"success": boolean | null,
"tool_input": Json | null,
"tool_name": string,
"tool_output": string | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "generations" | "media" | "observations" | "rollouts" | "tool_calls"
                  Insert: {
                    "action"?: string | null,"chat"?: (number)[] | null,"created_at"?: string,"duration_ms"?: number | null,"environment_duration_ms"?: number | null,"id"?: string,"info"?: Json | null,"memory_summary"?: string | null,"messages"?: Json | null,"messages_from"?: number | null,"model_duration_ms"?: number | null,"model_response"?: Json | null,"observation"?: string | null,"reward"?: number | null,"rollout_id": string,"step_number": number,"thought"?: string | null,"training_run_id"?: string | null
                  }
                  Update: {
                    "action"?: string | null,"chat"?: (number)[] | null,"created_at"?: string,"duration_ms"?: number | null,"environment_duration_ms"?: number | null,"id"?: string,"info"?: Json | null,"memory_summary"?: string | null,"messages"?: Json | null,"messages_from"?: number | null,"model_duration_ms"?: number | null,"model_response"?: Json | null,"observation"?: string | null,"reward"?: number | null,"rollout_id"?: string,"step_number"?: number,"thought"?: string | null,"training_run_id"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"archives": {
                  Row: {
                    "archive_bytes": number,"created_at": string,"database_bytes": number,"figures": NonNullable<Json>,"files": NonNullable<Json>,"id": string,"loaded_at": string | null,"row_counts": NonNullable<Json>,"training_run_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "archive_bytes": number,"created_at"?: string,"database_bytes": number,"figures": NonNullable<Json>,"files": NonNullable<Json>,"id"?: string,"loaded_at"?: string | null,"row_counts": NonNullable<Json>,"training_run_id": string
                  }
                  Update: {
                    "archive_bytes"?: number,"created_at"?: string,"database_bytes"?: number,"figures"?: NonNullable<Json>,"files"?: NonNullable<Json>,"id"?: string,"loaded_at"?: string | null,"row_counts"?: NonNullable<Json>,"training_run_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "archives_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "archives_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "archives_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: true
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"audit_log": {
                  Row: {
                    "action": string,"actor_id": string | null,"actor_kind": string,"actor_name": string | null,"details": NonNullable<Json>,"happened_at": string,"id": string,"key_id": string | null,"key_name": string | null,"subject": string | null,"subject_id": string | null,"subject_name": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "action": string,"actor_id"?: string | null,"actor_kind": string,"actor_name"?: string | null,"details"?: NonNullable<Json>,"happened_at"?: string,"id"?: string,"key_id"?: string | null,"key_name"?: string | null,"subject"?: string | null,"subject_id"?: string | null,"subject_name"?: string | null
                  }
                  Update: {
                    "action"?: string,"actor_id"?: string | null,"actor_kind"?: string,"actor_name"?: string | null,"details"?: NonNullable<Json>,"happened_at"?: string,"id"?: string,"key_id"?: string | null,"key_name"?: string | null,"subject"?: string | null,"subject_id"?: string | null,"subject_name"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"environment_versions": {
                  Row: {
                    "created_at": string,"created_by": string | null,"environment_id": string,"id": string,"kind": string | null,"preview": string | null,"preview_error": string | null,"spec": NonNullable<Json>,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"created_by"?: string | null,"environment_id": string,"id"?: string,"kind"?: string | null,"preview"?: string | null,"preview_error"?: string | null,"spec": NonNullable<Json>,"version": number
                  }
                  Update: {
                    "created_at"?: string,"created_by"?: string | null,"environment_id"?: string,"id"?: string,"kind"?: string | null,"preview"?: string | null,"preview_error"?: string | null,"spec"?: NonNullable<Json>,"version"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "environment_versions_environment_id_fkey"
      columns: ["environment_id"]
isOneToOne: false
      referencedRelation: "environments"
      referencedColumns: ["id"]
    }
                  ]
                },"environments": {
                  Row: {
                    "created_at": string,"description": string | null,"id": string,"is_draft": boolean,"kind": string | null,"name": string,"owner_id": string | null,"source": string | null,"spec": NonNullable<Json>,"updated_at": string,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"description"?: string | null,"id"?: string,"is_draft"?: boolean,"kind"?: string | null,"name": string,"owner_id"?: string | null,"source"?: string | null,"spec"?: NonNullable<Json>,"updated_at"?: string,"version"?: number
                  }
                  Update: {
                    "created_at"?: string,"description"?: string | null,"id"?: string,"is_draft"?: boolean,"kind"?: string | null,"name"?: string,"owner_id"?: string | null,"source"?: string | null,"spec"?: NonNullable<Json>,"updated_at"?: string,"version"?: number
                  }
                  Relationships: [
                    
                  ]
                },"evaluation_results": {
                  Row: {
                    "checkpoint_id": string,"created_at": string,"environment": string,"episode_count": number | null,"evaluation_id": string | null,"id": string,"mean_reward": number | null,"mean_turns": number | null,"metrics": NonNullable<Json>,"result_path": string | null,"success_rate": number | null,"task_id": string | null,"training_run_id": string | null,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "checkpoint_id": string,"created_at"?: string,"environment": string,"episode_count"?: number | null,"evaluation_id"?: string | null,"id"?: string,"mean_reward"?: number | null,"mean_turns"?: number | null,"metrics"?: NonNullable<Json>,"result_path"?: string | null,"success_rate"?: number | null,"task_id"?: string | null,"training_run_id"?: string | null,"updated_at"?: string
                  }
                  Update: {
                    "checkpoint_id"?: string,"created_at"?: string,"environment"?: string,"episode_count"?: number | null,"evaluation_id"?: string | null,"id"?: string,"mean_reward"?: number | null,"mean_turns"?: number | null,"metrics"?: NonNullable<Json>,"result_path"?: string | null,"success_rate"?: number | null,"task_id"?: string | null,"training_run_id"?: string | null,"updated_at"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "evaluation_results_checkpoint_id_fkey"
      columns: ["checkpoint_id"]
isOneToOne: false
      referencedRelation: "model_checkpoints"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "evaluation_results_evaluation_id_fkey"
      columns: ["evaluation_id"]
isOneToOne: false
      referencedRelation: "evaluations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "evaluation_results_task_id_fkey"
      columns: ["task_id"]
isOneToOne: false
      referencedRelation: "tasks"
      referencedColumns: ["id"]
    }
                  ]
                },"evaluations": {
                  Row: {
                    "checkpoint_id": string | null,"created_at": string,"environment": string | null,"finished_at": string | null,"id": string,"is_queued": boolean,"kind": string,"mean_reward": number | null,"mean_turns": number | null,"measured": (string)[],"metadata": NonNullable<Json>,"model": string | null,"name": string | null,"owner_id": string | null,"progress": number | null,"rewound_at": string | null,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"step": number | null,"success_rate": number | null,"timeline": number,"training_run_id": string | null,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "checkpoint_id"?: string | null,"created_at"?: string,"environment"?: string | null,"finished_at"?: string | null,"id"?: string,"is_queued"?: boolean,"kind"?: string,"mean_reward"?: number | null,"mean_turns"?: number | null,"measured"?: (string)[],"metadata"?: NonNullable<Json>,"model"?: string | null,"name"?: string | null,"owner_id"?: string | null,"progress"?: number | null,"rewound_at"?: string | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step"?: number | null,"success_rate"?: number | null,"timeline"?: number,"training_run_id"?: string | null,"updated_at"?: string
                  }
                  Update: {
                    "checkpoint_id"?: string | null,"created_at"?: string,"environment"?: string | null,"finished_at"?: string | null,"id"?: string,"is_queued"?: boolean,"kind"?: string,"mean_reward"?: number | null,"mean_turns"?: number | null,"measured"?: (string)[],"metadata"?: NonNullable<Json>,"model"?: string | null,"name"?: string | null,"owner_id"?: string | null,"progress"?: number | null,"rewound_at"?: string | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step"?: number | null,"success_rate"?: number | null,"timeline"?: number,"training_run_id"?: string | null,"updated_at"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "evaluations_checkpoint_id_fkey"
      columns: ["checkpoint_id"]
isOneToOne: false
      referencedRelation: "model_checkpoints"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "evaluations_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "evaluations_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "evaluations_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"generations": {
                  Row: {
                    "advantages": (number)[] | null,"agent_state_id": string,"completion_ids": (number)[] | null,"finish_reason": string | null,"id": string,"logprobs": (number)[] | null,"mask": (boolean)[] | null,"model": string | null,"policy_version": number | null,"position": number,"prompt": (number)[] | null,"prompt_ids": (number)[] | null,"tokens_from": number | null,"training_run_id": string | null,"agent_states": {
              "action": string | null,
"chat": (number)[] | null,
"created_at": string,
"duration_ms": number | null,
"environment_duration_ms": number | null,
"id": string,
"info": Json | null,
"memory_summary": string | null,
"messages": Json | null,
"messages_from": number | null,
"model_duration_ms": number | null,
"model_response": Json | null,
"observation": string | null,
"reward": number | null,
"rollout_id": string,
"step_number": number,
"thought": string | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "agent_states"
                  Insert: {
                    "advantages"?: (number)[] | null,"agent_state_id": string,"completion_ids"?: (number)[] | null,"finish_reason"?: string | null,"id"?: string,"logprobs"?: (number)[] | null,"mask"?: (boolean)[] | null,"model"?: string | null,"policy_version"?: number | null,"position"?: number,"prompt"?: (number)[] | null,"prompt_ids"?: (number)[] | null,"tokens_from"?: number | null,"training_run_id"?: string | null
                  }
                  Update: {
                    "advantages"?: (number)[] | null,"agent_state_id"?: string,"completion_ids"?: (number)[] | null,"finish_reason"?: string | null,"id"?: string,"logprobs"?: (number)[] | null,"mask"?: (boolean)[] | null,"model"?: string | null,"policy_version"?: number | null,"position"?: number,"prompt"?: (number)[] | null,"prompt_ids"?: (number)[] | null,"tokens_from"?: number | null,"training_run_id"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"invitations": {
                  Row: {
                    "accepted_at": string | null,"accepted_by": string | null,"created_at": string,"email": string,"expires_at": string,"id": string,"invited_by": string | null,"revoked_at": string | null,"role": string
                  }
                  ComputedFields: never
                  Insert: {
                    "accepted_at"?: string | null,"accepted_by"?: string | null,"created_at"?: string,"email": string,"expires_at": string,"id"?: string,"invited_by"?: string | null,"revoked_at"?: string | null,"role": string
                  }
                  Update: {
                    "accepted_at"?: string | null,"accepted_by"?: string | null,"created_at"?: string,"email"?: string,"expires_at"?: string,"id"?: string,"invited_by"?: string | null,"revoked_at"?: string | null,"role"?: string
                  }
                  Relationships: [
                    
                  ]
                },"job_logs": {
                  Row: {
                    "attempt": number,"bytes": number,"created_at": string,"id": string,"job_id": string,"start": number,"text": string
                  }
                  ComputedFields: never
                  Insert: {
                    "attempt": number,"bytes": number,"created_at"?: string,"id"?: string,"job_id": string,"start": number,"text": string
                  }
                  Update: {
                    "attempt"?: number,"bytes"?: number,"created_at"?: string,"id"?: string,"job_id"?: string,"start"?: number,"text"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "job_logs_job_id_fkey"
      columns: ["job_id"]
isOneToOne: false
      referencedRelation: "jobs"
      referencedColumns: ["id"]
    }
                  ]
                },"jobs": {
                  Row: {
                    "attempt": number,"backend": string,"config": NonNullable<Json>,"cost_usd": number | null,"created_at": string,"earlier_cost_usd": number,"exit_code": number | null,"external_id": string | null,"finished_at": string | null,"host": string | null,"id": string,"max_restarts": number,"name": string | null,"orchestrator_id": string | null,"owner_id": string | null,"restarts": number,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"stop_requested_at": string | null,"training_run_id": string | null,"updated_at": string,"yaml": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "attempt"?: number,"backend": string,"config"?: NonNullable<Json>,"cost_usd"?: number | null,"created_at"?: string,"earlier_cost_usd"?: number,"exit_code"?: number | null,"external_id"?: string | null,"finished_at"?: string | null,"host"?: string | null,"id"?: string,"max_restarts"?: number,"name"?: string | null,"orchestrator_id"?: string | null,"owner_id"?: string | null,"restarts"?: number,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"stop_requested_at"?: string | null,"training_run_id"?: string | null,"updated_at"?: string,"yaml"?: string | null
                  }
                  Update: {
                    "attempt"?: number,"backend"?: string,"config"?: NonNullable<Json>,"cost_usd"?: number | null,"created_at"?: string,"earlier_cost_usd"?: number,"exit_code"?: number | null,"external_id"?: string | null,"finished_at"?: string | null,"host"?: string | null,"id"?: string,"max_restarts"?: number,"name"?: string | null,"orchestrator_id"?: string | null,"owner_id"?: string | null,"restarts"?: number,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"stop_requested_at"?: string | null,"training_run_id"?: string | null,"updated_at"?: string,"yaml"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "jobs_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "jobs_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "jobs_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"media": {
                  Row: {
                    "agent_state_id": string | null,"bucket": string,"checksum": string | null,"content_type": string | null,"created_at": string,"duration_ms": number | null,"height": number | null,"id": string,"kind": string,"metadata": NonNullable<Json>,"owner_id": string | null,"path": string,"rewound_at": string | null,"rollout_id": string | null,"size_bytes": number | null,"timeline": number,"training_run_id": string | null,"width": number | null,"agent_states": {
              "action": string | null,
"chat": (number)[] | null,
"created_at": string,
"duration_ms": number | null,
"environment_duration_ms": number | null,
"id": string,
"info": Json | null,
"memory_summary": string | null,
"messages": Json | null,
"messages_from": number | null,
"model_duration_ms": number | null,
"model_response": Json | null,
"observation": string | null,
"reward": number | null,
"rollout_id": string,
"step_number": number,
"thought": string | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "agent_states"
                  Insert: {
                    "agent_state_id"?: string | null,"bucket"?: string,"checksum"?: string | null,"content_type"?: string | null,"created_at"?: string,"duration_ms"?: number | null,"height"?: number | null,"id"?: string,"kind": string,"metadata"?: NonNullable<Json>,"owner_id"?: string | null,"path": string,"rewound_at"?: string | null,"rollout_id"?: string | null,"size_bytes"?: number | null,"timeline"?: number,"training_run_id"?: string | null,"width"?: number | null
                  }
                  Update: {
                    "agent_state_id"?: string | null,"bucket"?: string,"checksum"?: string | null,"content_type"?: string | null,"created_at"?: string,"duration_ms"?: number | null,"height"?: number | null,"id"?: string,"kind"?: string,"metadata"?: NonNullable<Json>,"owner_id"?: string | null,"path"?: string,"rewound_at"?: string | null,"rollout_id"?: string | null,"size_bytes"?: number | null,"timeline"?: number,"training_run_id"?: string | null,"width"?: number | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "media_rollout_id_fkey"
      columns: ["rollout_id"]
isOneToOne: false
      referencedRelation: "rollouts"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "media_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "media_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "media_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"member_keys": {
                  Row: {
                    "created_at": string,"expires_at": string | null,"id": string,"last_used_at": string | null,"member_id": string,"name": string,"prefix": string,"revoked_at": string | null,"role": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"expires_at"?: string | null,"id"?: string,"last_used_at"?: string | null,"member_id": string,"name": string,"prefix": string,"revoked_at"?: string | null,"role": string
                  }
                  Update: {
                    "created_at"?: string,"expires_at"?: string | null,"id"?: string,"last_used_at"?: string | null,"member_id"?: string,"name"?: string,"prefix"?: string,"revoked_at"?: string | null,"role"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "member_keys_member_id_fkey"
      columns: ["member_id"]
isOneToOne: false
      referencedRelation: "members"
      referencedColumns: ["user_id"]
    }
                  ]
                },"members": {
                  Row: {
                    "created_at": string,"display_name": string | null,"role": string,"updated_at": string,"user_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"display_name"?: string | null,"role": string,"updated_at"?: string,"user_id": string
                  }
                  Update: {
                    "created_at"?: string,"display_name"?: string | null,"role"?: string,"updated_at"?: string,"user_id"?: string
                  }
                  Relationships: [
                    
                  ]
                },"metric_axes": {
                  Row: {
                    "first_step": number,"id": string,"last_step": number,"points": number,"steps": (number)[],"times": (string)[],"training_run_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "first_step": number,"id"?: string,"last_step": number,"points": number,"steps": (number)[],"times": (string)[],"training_run_id": string
                  }
                  Update: {
                    "first_step"?: number,"id"?: string,"last_step"?: number,"points"?: number,"steps"?: (number)[],"times"?: (string)[],"training_run_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "metric_axes_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_axes_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_axes_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"metric_chunks": {
                  Row: {
                    "axis_id": string | null,"first_step": number,"id": string,"last_step": number,"name": string,"steps": (number)[] | null,"timeline": number,"times": (string)[] | null,"training_run_id": string,"updated_at": string,"values": (number)[],"visible_to": number | null
                  }
                  ComputedFields: never
                  Insert: {
                    "axis_id"?: string | null,"first_step": number,"id"?: string,"last_step": number,"name": string,"steps"?: (number)[] | null,"timeline"?: number,"times"?: (string)[] | null,"training_run_id": string,"updated_at"?: string,"values": (number)[],"visible_to"?: number | null
                  }
                  Update: {
                    "axis_id"?: string | null,"first_step"?: number,"id"?: string,"last_step"?: number,"name"?: string,"steps"?: (number)[] | null,"timeline"?: number,"times"?: (string)[] | null,"training_run_id"?: string,"updated_at"?: string,"values"?: (number)[],"visible_to"?: number | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"model_checkpoints": {
                  Row: {
                    "checkpoint_number": number,"checksum": string | null,"created_at": string,"id": string,"metadata": NonNullable<Json>,"metrics": NonNullable<Json>,"rewound_at": string | null,"size_bytes": number | null,"step": number | null,"storage_path": string | null,"timeline": number,"training_run_id": string,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "checkpoint_number": number,"checksum"?: string | null,"created_at"?: string,"id"?: string,"metadata"?: NonNullable<Json>,"metrics"?: NonNullable<Json>,"rewound_at"?: string | null,"size_bytes"?: number | null,"step"?: number | null,"storage_path"?: string | null,"timeline"?: number,"training_run_id": string,"updated_at"?: string
                  }
                  Update: {
                    "checkpoint_number"?: number,"checksum"?: string | null,"created_at"?: string,"id"?: string,"metadata"?: NonNullable<Json>,"metrics"?: NonNullable<Json>,"rewound_at"?: string | null,"size_bytes"?: number | null,"step"?: number | null,"storage_path"?: string | null,"timeline"?: number,"training_run_id"?: string,"updated_at"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "model_checkpoints_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "model_checkpoints_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "model_checkpoints_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"observations": {
                  Row: {
                    "agent_state_id": string,"id": string,"kind": string,"media_path": string | null,"position": number,"text": string | null,"training_run_id": string | null,"agent_states": {
              "action": string | null,
"chat": (number)[] | null,
"created_at": string,
"duration_ms": number | null,
"environment_duration_ms": number | null,
"id": string,
"info": Json | null,
"memory_summary": string | null,
"messages": Json | null,
"messages_from": number | null,
"model_duration_ms": number | null,
"model_response": Json | null,
"observation": string | null,
"reward": number | null,
"rollout_id": string,
"step_number": number,
"thought": string | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "agent_states"
                  Insert: {
                    "agent_state_id": string,"id"?: string,"kind": string,"media_path"?: string | null,"position"?: number,"text"?: string | null,"training_run_id"?: string | null
                  }
                  Update: {
                    "agent_state_id"?: string,"id"?: string,"kind"?: string,"media_path"?: string | null,"position"?: number,"text"?: string | null,"training_run_id"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"orchestrators": {
                  Row: {
                    "backends": (string)[],"heartbeat_at": string,"host": string,"id": string,"max_jobs": number,"name": string,"owner_id": string | null,"pid": number | null,"started_at": string,"state": string,"stopped_at": string | null,"version": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "backends"?: (string)[],"heartbeat_at"?: string,"host": string,"id"?: string,"max_jobs"?: number,"name": string,"owner_id"?: string | null,"pid"?: number | null,"started_at"?: string,"state"?: string,"stopped_at"?: string | null,"version"?: string | null
                  }
                  Update: {
                    "backends"?: (string)[],"heartbeat_at"?: string,"host"?: string,"id"?: string,"max_jobs"?: number,"name"?: string,"owner_id"?: string | null,"pid"?: number | null,"started_at"?: string,"state"?: string,"stopped_at"?: string | null,"version"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"rewinds": {
                  Row: {
                    "created_at": string,"cut_at": string,"id": string,"timeline": number,"to_step": number,"training_run_id": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"cut_at": string,"id"?: string,"timeline": number,"to_step": number,"training_run_id": string
                  }
                  Update: {
                    "created_at"?: string,"cut_at"?: string,"id"?: string,"timeline"?: number,"to_step"?: number,"training_run_id"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "rewinds_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rewinds_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rewinds_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"rollout_groups": {
                  Row: {
                    "completed_count": number,"created_at": string,"evaluation_id": string | null,"id": string,"metadata": NonNullable<Json>,"number": number,"reward_count": number,"reward_mean": number | null,"reward_squares": number,"reward_std": number | null,"reward_sum": number,"rollout_count": number,"success_count": number,"task_description": string | null,"task_id": string | null,"training_run_id": string | null,"training_step_id": string | null,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "completed_count"?: number,"created_at"?: string,"evaluation_id"?: string | null,"id"?: string,"metadata"?: NonNullable<Json>,"number": number,"reward_count"?: number,"reward_mean"?: never,"reward_squares"?: number,"reward_std"?: never,"reward_sum"?: number,"rollout_count"?: number,"success_count"?: number,"task_description"?: string | null,"task_id"?: string | null,"training_run_id"?: string | null,"training_step_id"?: string | null,"updated_at"?: string
                  }
                  Update: {
                    "completed_count"?: number,"created_at"?: string,"evaluation_id"?: string | null,"id"?: string,"metadata"?: NonNullable<Json>,"number"?: number,"reward_count"?: number,"reward_mean"?: never,"reward_squares"?: number,"reward_std"?: never,"reward_sum"?: number,"rollout_count"?: number,"success_count"?: number,"task_description"?: string | null,"task_id"?: string | null,"training_run_id"?: string | null,"training_step_id"?: string | null,"updated_at"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "rollout_groups_evaluation_id_fkey"
      columns: ["evaluation_id"]
isOneToOne: false
      referencedRelation: "evaluations"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_groups_task_id_fkey"
      columns: ["task_id"]
isOneToOne: false
      referencedRelation: "tasks"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_groups_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_groups_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_groups_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_groups_training_step_id_fkey"
      columns: ["training_step_id"]
isOneToOne: false
      referencedRelation: "training_steps"
      referencedColumns: ["id"]
    }
                  ]
                },"rollout_stats": {
                  Row: {
                    "completed_count": number,"environment": string,"id": number,"reward_count": number,"reward_sum": number,"rollout_count": number,"shard": number,"step_count": number,"step_sum": number,"success_count": number,"training_run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "completed_count"?: number,"environment": string,"id"?: never,"reward_count"?: number,"reward_sum"?: number,"rollout_count"?: number,"shard": number,"step_count"?: number,"step_sum"?: number,"success_count"?: number,"training_run_id"?: string | null
                  }
                  Update: {
                    "completed_count"?: number,"environment"?: string,"id"?: never,"reward_count"?: number,"reward_sum"?: number,"rollout_count"?: number,"shard"?: number,"step_count"?: number,"step_sum"?: number,"success_count"?: number,"training_run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "rollout_stats_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_stats_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollout_stats_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"rollouts": {
                  Row: {
                    "agent": string | null,"attempt": number,"attempt_of": string | null,"cache_key": string | null,"cancel_requested_at": string | null,"cost_usd": number | null,"created_at": string,"delete_requested": boolean,"environment": string,"episode_number": number | null,"error": string | null,"finished_at": string | null,"group_id": string | null,"id": string,"input_tokens": number | null,"lease_id": string | null,"logs_path": string | null,"max_attempts": number,"metadata": NonNullable<Json>,"model": string | null,"output_tokens": number | null,"owner_id": string | null,"policy_version": number | null,"priority": number,"request": Json | null,"result": Json | null,"rewound_at": string | null,"seed": number | null,"source": string,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"step": number | null,"step_count": number | null,"task_description": string | null,"task_id": string | null,"timeline": number,"total_reward": number | null,"training_run_id": string | null,"updated_at": string,"video_path": string | null,"worker_id": string | null,"agent_states": {
              "action": string | null,
"chat": (number)[] | null,
"created_at": string,
"duration_ms": number | null,
"environment_duration_ms": number | null,
"id": string,
"info": Json | null,
"memory_summary": string | null,
"messages": Json | null,
"messages_from": number | null,
"model_duration_ms": number | null,
"model_response": Json | null,
"observation": string | null,
"reward": number | null,
"rollout_id": string,
"step_number": number,
"thought": string | null,
"training_run_id": string | null
            } | null,"rewards": {
              "created_at": string | null,
"details": Json | null,
"id": string | null,
"reward": number | null,
"reward_type": string | null,
"rollout_id": string | null,
"step_number": number | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "agent_states" | "rewards"
                  Insert: {
                    "agent"?: string | null,"attempt"?: number,"attempt_of"?: string | null,"cache_key"?: string | null,"cancel_requested_at"?: string | null,"cost_usd"?: number | null,"created_at"?: string,"delete_requested"?: boolean,"environment": string,"episode_number"?: number | null,"error"?: string | null,"finished_at"?: string | null,"group_id"?: string | null,"id"?: string,"input_tokens"?: number | null,"lease_id"?: string | null,"logs_path"?: string | null,"max_attempts"?: number,"metadata"?: NonNullable<Json>,"model"?: string | null,"output_tokens"?: number | null,"owner_id"?: string | null,"policy_version"?: number | null,"priority"?: number,"request"?: Json | null,"result"?: Json | null,"rewound_at"?: string | null,"seed"?: number | null,"source"?: string,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step"?: number | null,"step_count"?: number | null,"task_description"?: string | null,"task_id"?: string | null,"timeline"?: number,"total_reward"?: number | null,"training_run_id"?: string | null,"updated_at"?: string,"video_path"?: string | null,"worker_id"?: string | null
                  }
                  Update: {
                    "agent"?: string | null,"attempt"?: number,"attempt_of"?: string | null,"cache_key"?: string | null,"cancel_requested_at"?: string | null,"cost_usd"?: number | null,"created_at"?: string,"delete_requested"?: boolean,"environment"?: string,"episode_number"?: number | null,"error"?: string | null,"finished_at"?: string | null,"group_id"?: string | null,"id"?: string,"input_tokens"?: number | null,"lease_id"?: string | null,"logs_path"?: string | null,"max_attempts"?: number,"metadata"?: NonNullable<Json>,"model"?: string | null,"output_tokens"?: number | null,"owner_id"?: string | null,"policy_version"?: number | null,"priority"?: number,"request"?: Json | null,"result"?: Json | null,"rewound_at"?: string | null,"seed"?: number | null,"source"?: string,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step"?: number | null,"step_count"?: number | null,"task_description"?: string | null,"task_id"?: string | null,"timeline"?: number,"total_reward"?: number | null,"training_run_id"?: string | null,"updated_at"?: string,"video_path"?: string | null,"worker_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "rollouts_attempt_of_fkey"
      columns: ["attempt_of"]
isOneToOne: false
      referencedRelation: "rollouts"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollouts_group_id_fkey"
      columns: ["group_id"]
isOneToOne: false
      referencedRelation: "rollout_groups"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollouts_task_id_fkey"
      columns: ["task_id"]
isOneToOne: false
      referencedRelation: "tasks"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollouts_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollouts_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "rollouts_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"status_history": {
                  Row: {
                    "changed_at": string,"changed_by": string | null,"entity": string,"entity_id": string,"id": string,"message": string | null,"new_status": string,"old_status": string | null,"training_run_id": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "changed_at"?: string,"changed_by"?: string | null,"entity": string,"entity_id": string,"id"?: string,"message"?: string | null,"new_status": string,"old_status"?: string | null,"training_run_id"?: string | null
                  }
                  Update: {
                    "changed_at"?: string,"changed_by"?: string | null,"entity"?: string,"entity_id"?: string,"id"?: string,"message"?: string | null,"new_status"?: string,"old_status"?: string | null,"training_run_id"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "status_history_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "status_history_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "status_history_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"sweep_trials": {
                  Row: {
                    "created_at": string,"id": string,"parameters": NonNullable<Json>,"pruned_at": string | null,"sweep_id": string,"training_run_id": string | null,"trial": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"id"?: string,"parameters": NonNullable<Json>,"pruned_at"?: string | null,"sweep_id": string,"training_run_id"?: string | null,"trial": number
                  }
                  Update: {
                    "created_at"?: string,"id"?: string,"parameters"?: NonNullable<Json>,"pruned_at"?: string | null,"sweep_id"?: string,"training_run_id"?: string | null,"trial"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "sweep_trials_sweep_id_fkey"
      columns: ["sweep_id"]
isOneToOne: false
      referencedRelation: "sweeps"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "sweep_trials_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "sweep_trials_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "sweep_trials_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"sweeps": {
                  Row: {
                    "created_at": string,"direction": string,"early_stopping": Json | null,"finished_at": string | null,"id": string,"importances": Json | null,"job_config": NonNullable<Json>,"max_concurrent": number,"max_trials": number,"method": string,"metric": string,"name": string,"next_trial": number,"orchestrator_id": string | null,"owner_id": string | null,"seed": number,"space": NonNullable<Json>,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"template": NonNullable<Json>,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"direction"?: string,"early_stopping"?: Json | null,"finished_at"?: string | null,"id"?: string,"importances"?: Json | null,"job_config"?: NonNullable<Json>,"max_concurrent"?: number,"max_trials": number,"method": string,"metric": string,"name": string,"next_trial"?: number,"orchestrator_id"?: string | null,"owner_id"?: string | null,"seed"?: number,"space": NonNullable<Json>,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"template": NonNullable<Json>,"updated_at"?: string
                  }
                  Update: {
                    "created_at"?: string,"direction"?: string,"early_stopping"?: Json | null,"finished_at"?: string | null,"id"?: string,"importances"?: Json | null,"job_config"?: NonNullable<Json>,"max_concurrent"?: number,"max_trials"?: number,"method"?: string,"metric"?: string,"name"?: string,"next_trial"?: number,"orchestrator_id"?: string | null,"owner_id"?: string | null,"seed"?: number,"space"?: NonNullable<Json>,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"template"?: NonNullable<Json>,"updated_at"?: string
                  }
                  Relationships: [
                    
                  ]
                },"tasks": {
                  Row: {
                    "created_at": string,"description": string,"environment": string | null,"expected_answer": string | null,"external_id": string | null,"files_path": string | null,"id": string,"metadata": NonNullable<Json>,"name": string | null,"owner_id": string | null,"solution": Json | null,"split": string | null,"updated_at": string,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"description": string,"environment"?: string | null,"expected_answer"?: string | null,"external_id"?: string | null,"files_path"?: string | null,"id"?: string,"metadata"?: NonNullable<Json>,"name"?: string | null,"owner_id"?: string | null,"solution"?: Json | null,"split"?: string | null,"updated_at"?: string,"version"?: number
                  }
                  Update: {
                    "created_at"?: string,"description"?: string,"environment"?: string | null,"expected_answer"?: string | null,"external_id"?: string | null,"files_path"?: string | null,"id"?: string,"metadata"?: NonNullable<Json>,"name"?: string | null,"owner_id"?: string | null,"solution"?: Json | null,"split"?: string | null,"updated_at"?: string,"version"?: number
                  }
                  Relationships: [
                    
                  ]
                },"tool_calls": {
                  Row: {
                    "agent_state_id": string,"created_at": string,"error_message": string | null,"execution_time_ms": number | null,"id": string,"position": number,"success": boolean | null,"tool_input": Json | null,"tool_name": string,"tool_output": string | null,"training_run_id": string | null,"agent_states": {
              "action": string | null,
"chat": (number)[] | null,
"created_at": string,
"duration_ms": number | null,
"environment_duration_ms": number | null,
"id": string,
"info": Json | null,
"memory_summary": string | null,
"messages": Json | null,
"messages_from": number | null,
"model_duration_ms": number | null,
"model_response": Json | null,
"observation": string | null,
"reward": number | null,
"rollout_id": string,
"step_number": number,
"thought": string | null,
"training_run_id": string | null
            } | null
                  }
                  ComputedFields: "agent_states"
                  Insert: {
                    "agent_state_id": string,"created_at"?: string,"error_message"?: string | null,"execution_time_ms"?: number | null,"id"?: string,"position"?: number,"success"?: boolean | null,"tool_input"?: Json | null,"tool_name": string,"tool_output"?: string | null,"training_run_id"?: string | null
                  }
                  Update: {
                    "agent_state_id"?: string,"created_at"?: string,"error_message"?: string | null,"execution_time_ms"?: number | null,"id"?: string,"position"?: number,"success"?: boolean | null,"tool_input"?: Json | null,"tool_name"?: string,"tool_output"?: string | null,"training_run_id"?: string | null
                  }
                  Relationships: [
                    
                  ]
                },"training_runs": {
                  Row: {
                    "algorithm": string | null,"archive_status": string | null,"baseline_id": string | null,"config": NonNullable<Json>,"created_at": string,"current_step": number | null,"description": string | null,"environment": string | null,"environment_version": number | null,"finished_at": string | null,"heartbeat_at": string | null,"heartbeat_timeout_seconds": number,"id": string,"metadata": NonNullable<Json>,"name": string,"owner_id": string | null,"progress": number | null,"rewinds": (number)[] | null,"run_name": string | null,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"stop_requested_at": string | null,"summary": NonNullable<Json>,"tags": (string)[],"timeline": number,"total_steps": number | null,"updated_at": string,"visibility": string
                  }
                  ComputedFields: never
                  Insert: {
                    "algorithm"?: string | null,"archive_status"?: string | null,"baseline_id"?: string | null,"config"?: NonNullable<Json>,"created_at"?: string,"current_step"?: number | null,"description"?: string | null,"environment"?: string | null,"environment_version"?: number | null,"finished_at"?: string | null,"heartbeat_at"?: string | null,"heartbeat_timeout_seconds"?: number,"id"?: string,"metadata"?: NonNullable<Json>,"name": string,"owner_id"?: string | null,"progress"?: number | null,"rewinds"?: (number)[] | null,"run_name"?: string | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"stop_requested_at"?: string | null,"summary"?: NonNullable<Json>,"tags"?: (string)[],"timeline"?: number,"total_steps"?: number | null,"updated_at"?: string,"visibility"?: string
                  }
                  Update: {
                    "algorithm"?: string | null,"archive_status"?: string | null,"baseline_id"?: string | null,"config"?: NonNullable<Json>,"created_at"?: string,"current_step"?: number | null,"description"?: string | null,"environment"?: string | null,"environment_version"?: number | null,"finished_at"?: string | null,"heartbeat_at"?: string | null,"heartbeat_timeout_seconds"?: number,"id"?: string,"metadata"?: NonNullable<Json>,"name"?: string,"owner_id"?: string | null,"progress"?: number | null,"rewinds"?: (number)[] | null,"run_name"?: string | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"stop_requested_at"?: string | null,"summary"?: NonNullable<Json>,"tags"?: (string)[],"timeline"?: number,"total_steps"?: number | null,"updated_at"?: string,"visibility"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "training_runs_baseline_id_fkey"
      columns: ["baseline_id"]
isOneToOne: false
      referencedRelation: "evaluations"
      referencedColumns: ["id"]
    }
                  ]
                },"training_steps": {
                  Row: {
                    "created_at": string,"finished_at": string | null,"grad_norm": number | null,"id": string,"kl": number | null,"loss": number | null,"metrics": NonNullable<Json>,"phase": string | null,"reward_mean": number | null,"reward_std": number | null,"rewound_at": string | null,"rollout_progress": number | null,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"step": number,"timeline": number,"tokens": number | null,"training_progress": number | null,"training_run_id": string,"updated_at": string
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"finished_at"?: string | null,"grad_norm"?: number | null,"id"?: string,"kl"?: number | null,"loss"?: number | null,"metrics"?: NonNullable<Json>,"phase"?: string | null,"reward_mean"?: number | null,"reward_std"?: number | null,"rewound_at"?: string | null,"rollout_progress"?: number | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step": number,"timeline"?: number,"tokens"?: number | null,"training_progress"?: number | null,"training_run_id": string,"updated_at"?: string
                  }
                  Update: {
                    "created_at"?: string,"finished_at"?: string | null,"grad_norm"?: number | null,"id"?: string,"kl"?: number | null,"loss"?: number | null,"metrics"?: NonNullable<Json>,"phase"?: string | null,"reward_mean"?: number | null,"reward_std"?: number | null,"rewound_at"?: string | null,"rollout_progress"?: number | null,"started_at"?: string | null,"status"?: string,"status_change_id"?: string | null,"status_message"?: string | null,"step"?: number,"timeline"?: number,"tokens"?: number | null,"training_progress"?: number | null,"training_run_id"?: string,"updated_at"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "training_steps_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "training_steps_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "training_steps_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"validation_overrides": {
                  Row: {
                    "created_at": string,"id": string,"made_by": string | null,"made_by_name": string | null,"new_status": string,"old_status": string,"reason": string,"rollout_id": string,"training_run_id": string | null,"validation_id": string | null,"verdict": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"id"?: string,"made_by"?: string | null,"made_by_name"?: string | null,"new_status": string,"old_status": string,"reason": string,"rollout_id": string,"training_run_id"?: string | null,"validation_id"?: string | null,"verdict"?: string | null
                  }
                  Update: {
                    "created_at"?: string,"id"?: string,"made_by"?: string | null,"made_by_name"?: string | null,"new_status"?: string,"old_status"?: string,"reason"?: string,"rollout_id"?: string,"training_run_id"?: string | null,"validation_id"?: string | null,"verdict"?: string | null
                  }
                  Relationships: [
                    {
      foreignKeyName: "validation_overrides_rollout_id_fkey"
      columns: ["rollout_id"]
isOneToOne: false
      referencedRelation: "rollouts"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "validation_overrides_validation_id_fkey"
      columns: ["validation_id"]
isOneToOne: false
      referencedRelation: "validations"
      referencedColumns: ["id"]
    }
                  ]
                },"validations": {
                  Row: {
                    "actual": string | null,"created_at": string,"details": Json | null,"expected": string | null,"id": string,"message": string | null,"rollout_id": string,"score": number | null,"training_run_id": string | null,"updated_at": string,"validator_id": string | null,"validator_name": string,"validator_version": number | null,"verdict": string
                  }
                  ComputedFields: never
                  Insert: {
                    "actual"?: string | null,"created_at"?: string,"details"?: Json | null,"expected"?: string | null,"id"?: string,"message"?: string | null,"rollout_id": string,"score"?: number | null,"training_run_id"?: string | null,"updated_at"?: string,"validator_id"?: string | null,"validator_name"?: string,"validator_version"?: number | null,"verdict": string
                  }
                  Update: {
                    "actual"?: string | null,"created_at"?: string,"details"?: Json | null,"expected"?: string | null,"id"?: string,"message"?: string | null,"rollout_id"?: string,"score"?: number | null,"training_run_id"?: string | null,"updated_at"?: string,"validator_id"?: string | null,"validator_name"?: string,"validator_version"?: number | null,"verdict"?: string
                  }
                  Relationships: [
                    {
      foreignKeyName: "validations_rollout_id_fkey"
      columns: ["rollout_id"]
isOneToOne: false
      referencedRelation: "rollouts"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "validations_validator_id_fkey"
      columns: ["validator_id"]
isOneToOne: false
      referencedRelation: "validators"
      referencedColumns: ["id"]
    }
                  ]
                },"validators": {
                  Row: {
                    "created_at": string,"external_id": string,"id": string,"kind": string,"retired_at": string | null,"spec": NonNullable<Json>,"task_id": string,"updated_at": string,"version": number
                  }
                  ComputedFields: never
                  Insert: {
                    "created_at"?: string,"external_id"?: string,"id"?: string,"kind": string,"retired_at"?: string | null,"spec"?: NonNullable<Json>,"task_id": string,"updated_at"?: string,"version"?: number
                  }
                  Update: {
                    "created_at"?: string,"external_id"?: string,"id"?: string,"kind"?: string,"retired_at"?: string | null,"spec"?: NonNullable<Json>,"task_id"?: string,"updated_at"?: string,"version"?: number
                  }
                  Relationships: [
                    {
      foreignKeyName: "validators_task_id_fkey"
      columns: ["task_id"]
isOneToOne: false
      referencedRelation: "tasks"
      referencedColumns: ["id"]
    }
                  ]
                },"workers": {
                  Row: {
                    "heartbeat_at": string,"host": string | null,"id": string,"infra": NonNullable<Json>,"max_rollouts": number,"name": string,"owner_id": string | null,"pid": number | null,"providers": (string)[],"started_at": string,"state": string,"stopped_at": string | null,"version": string | null
                  }
                  ComputedFields: never
                  Insert: {
                    "heartbeat_at"?: string,"host"?: string | null,"id"?: string,"infra"?: NonNullable<Json>,"max_rollouts"?: number,"name": string,"owner_id"?: string | null,"pid"?: number | null,"providers"?: (string)[],"started_at"?: string,"state"?: string,"stopped_at"?: string | null,"version"?: string | null
                  }
                  Update: {
                    "heartbeat_at"?: string,"host"?: string | null,"id"?: string,"infra"?: NonNullable<Json>,"max_rollouts"?: number,"name"?: string,"owner_id"?: string | null,"pid"?: number | null,"providers"?: (string)[],"started_at"?: string,"state"?: string,"stopped_at"?: string | null,"version"?: string | null
                  }
                  Relationships: [
                    
                  ]
                }
          }
          Views: {
            "metrics": {
                  Row: {
                    "chunk_id": string,"name": string,"recorded_at": string | null,"step": number | null,"training_run_id": string,"value": number | null
                  }
                  ComputedFields: never
                  Relationships: [
                    {
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_list"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "run_overview"
      referencedColumns: ["id"]
    },{
      foreignKeyName: "metric_chunks_training_run_id_fkey"
      columns: ["training_run_id"]
isOneToOne: false
      referencedRelation: "training_runs"
      referencedColumns: ["id"]
    }
                  ]
                },"rewards": {
                  Row: {
                    "created_at": string | null,"details": Json | null,"id": string | null,"reward": number | null,"reward_type": string | null,"rollout_id": string | null,"step_number": number | null,"training_run_id": string | null,"rollouts": {
              "agent": string | null,
"attempt": number,
"attempt_of": string | null,
"cache_key": string | null,
"cancel_requested_at": string | null,
"cost_usd": number | null,
"created_at": string,
"delete_requested": boolean,
"environment": string,
"episode_number": number | null,
"error": string | null,
"finished_at": string | null,
"group_id": string | null,
"id": string,
"input_tokens": number | null,
"lease_id": string | null,
"logs_path": string | null,
"max_attempts": number,
"metadata": NonNullable<Json>,
"model": string | null,
"output_tokens": number | null,
"owner_id": string | null,
"policy_version": number | null,
"priority": number,
"request": Json | null,
"result": Json | null,
"rewound_at": string | null,
"seed": number | null,
"source": string,
"started_at": string | null,
"status": string,
"status_change_id": string | null,
"status_message": string | null,
"step": number | null,
"step_count": number | null,
"task_description": string | null,
"task_id": string | null,
"timeline": number,
"total_reward": number | null,
"training_run_id": string | null,
"updated_at": string,
"video_path": string | null,
"worker_id": string | null
            } | null
                  }
                  ComputedFields: "rollouts"
                  Insert: {
                           "created_at"?: string | null,"details"?: Json | null,"id"?: string | null,"reward"?: number | null,"reward_type"?: string | null,"rollout_id"?: string | null,"step_number"?: number | null,"training_run_id"?: string | null
                         }
                        Update: {
                           "created_at"?: string | null,"details"?: Json | null,"id"?: string | null,"reward"?: number | null,"reward_type"?: string | null,"rollout_id"?: string | null,"step_number"?: number | null,"training_run_id"?: string | null
                         }
                        Relationships: [
                    
                  ]
                },"run_list": {
                  Row: {
                    "algorithm": string | null,"archive_status": string | null,"average_reward": number | null,"average_turns": number | null,"baseline_id": string | null,"completed_count": number | null,"created_at": string,"current_step": number | null,"description": string | null,"environment": string | null,"finished_at": string | null,"heartbeat_at": string | null,"heartbeat_timeout_seconds": number,"id": string,"name": string,"owner_id": string | null,"owner_name": string | null,"progress": number | null,"rollout_count": number | null,"run_name": string | null,"search_text": string | null,"shown_status": string | null,"started_at": string | null,"status": string,"status_message": string | null,"steps_done": number | null,"success_count": number | null,"success_rate": number | null,"tags": (string)[],"timeline": number,"total_steps": number | null,"updated_at": string,"visibility": string
                  }
                  ComputedFields: never
                  Relationships: [
                    {
      foreignKeyName: "training_runs_baseline_id_fkey"
      columns: ["baseline_id"]
isOneToOne: false
      referencedRelation: "evaluations"
      referencedColumns: ["id"]
    }
                  ]
                },"run_overview": {
                  Row: {
                    "algorithm": string | null,"archive_status": string | null,"baseline_id": string | null,"config": NonNullable<Json>,"created_at": string,"current_step": number | null,"description": string | null,"environment": string | null,"environment_version": number | null,"finished_at": string | null,"heartbeat_at": string | null,"heartbeat_timeout_seconds": number,"id": string,"metadata": NonNullable<Json>,"name": string,"owner_id": string | null,"progress": number | null,"rewinds": (number)[] | null,"run_name": string | null,"shown_status": string | null,"started_at": string | null,"status": string,"status_change_id": string | null,"status_message": string | null,"steps_done": number | null,"stop_requested_at": string | null,"summary": NonNullable<Json>,"tags": (string)[],"timeline": number,"total_steps": number | null,"updated_at": string,"visibility": string
                  }
                  ComputedFields: never
                  Insert: {
                           "algorithm"?: string | null,"archive_status"?: string | null,"baseline_id"?: string | null,"config"?: Json | null,"created_at"?: string | null,"current_step"?: never,"description"?: string | null,"environment"?: string | null,"environment_version"?: number | null,"finished_at"?: string | null,"heartbeat_at"?: string | null,"heartbeat_timeout_seconds"?: number | null,"id"?: string | null,"metadata"?: Json | null,"name"?: string | null,"owner_id"?: string | null,"progress"?: never,"rewinds"?: (number)[] | null,"run_name"?: string | null,"shown_status"?: never,"started_at"?: string | null,"status"?: string | null,"status_change_id"?: string | null,"status_message"?: string | null,"steps_done"?: never,"stop_requested_at"?: string | null,"summary"?: Json | null,"tags"?: (string)[] | null,"timeline"?: number | null,"total_steps"?: number | null,"updated_at"?: string | null,"visibility"?: string | null
                         }
                        Update: {
                           "algorithm"?: string | null,"archive_status"?: string | null,"baseline_id"?: string | null,"config"?: Json | null,"created_at"?: string | null,"current_step"?: never,"description"?: string | null,"environment"?: string | null,"environment_version"?: number | null,"finished_at"?: string | null,"heartbeat_at"?: string | null,"heartbeat_timeout_seconds"?: number | null,"id"?: string | null,"metadata"?: Json | null,"name"?: string | null,"owner_id"?: string | null,"progress"?: never,"rewinds"?: (number)[] | null,"run_name"?: string | null,"shown_status"?: never,"started_at"?: string | null,"status"?: string | null,"status_change_id"?: string | null,"status_message"?: string | null,"steps_done"?: never,"stop_requested_at"?: string | null,"summary"?: Json | null,"tags"?: (string)[] | null,"timeline"?: number | null,"total_steps"?: number | null,"updated_at"?: string | null,"visibility"?: string | null
                         }
                        Relationships: [
                    {
      foreignKeyName: "training_runs_baseline_id_fkey"
      columns: ["baseline_id"]
isOneToOne: false
      referencedRelation: "evaluations"
      referencedColumns: ["id"]
    }
                  ]
                }
          }
          Functions: {
            "add_trial":
{ Args: { "lease_id": string,"parameters": Json,"trial": number }; Returns: Json
                           },
"agent_states":
{ Args: { "": Database["public"]['Tables']["generations"]['Row'] }; Returns: { error: true } & "the function public.agent_states with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "generations"
        to: "agent_states"
        isOneToOne: true
        isSetofReturn: true
      } } |
{ Args: { "": Database["public"]['Tables']["media"]['Row'] }; Returns: { error: true } & "the function public.agent_states with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "media"
        to: "agent_states"
        isOneToOne: true
        isSetofReturn: true
      } } |
{ Args: { "": Database["public"]['Tables']["observations"]['Row'] }; Returns: { error: true } & "the function public.agent_states with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "observations"
        to: "agent_states"
        isOneToOne: true
        isSetofReturn: true
      } } |
{ Args: { "": Database["public"]['Tables']["rollouts"]['Row'] }; Returns: { error: true } & "the function public.agent_states with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "rollouts"
        to: "agent_states"
        isOneToOne: false
        isSetofReturn: true
      } } |
{ Args: { "": Database["public"]['Tables']["tool_calls"]['Row'] }; Returns: { error: true } & "the function public.agent_states with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "tool_calls"
        to: "agent_states"
        isOneToOne: true
        isSetofReturn: true
      } },
"append_job_log":
{ Args: { "attempt": number,"lease_id": string,"start": number,"text": string }; Returns: number
                           },
"begin_attempt":
{ Args: { "attempt": number,"job_id": string,"token": string }; Returns: boolean
                           },
"cancel_rollouts":
{ Args: { "rollout_ids": (string)[] }; Returns: Json
                           },
"change_status":
{ Args: { "change_id"?: string,"entity": string,"entity_id": string,"fields"?: Json,"message"?: string,"status": string }; Returns: Json
                           },
"claim_jobs":
{ Args: { "lease_seconds"?: number,"orchestrator_id": string,"wanted"?: number }; Returns: Json
                           },
"claim_rollouts":
{ Args: { "lease_seconds"?: number,"providers"?: (string)[],"wanted"?: number,"worker_id": string }; Returns: Json
                           },
"claim_sweeps":
{ Args: { "lease_seconds"?: number,"orchestrator_id": string }; Returns: Json
                           },
"compare_evaluations":
{ Args: { "baseline_id": string,"evaluation_id": string }; Returns: Json
                           },
"create_key":
{ Args: { "expires_at"?: string,"member_id"?: string,"name": string,"role"?: string }; Returns: Json
                           },
"delete_rollouts":
{ Args: { "rollout_ids": (string)[] }; Returns: Json
                           },
"find_invitation":
{ Args: { "token": string }; Returns: Json
                           },
"find_rollouts":
{ Args: { "after"?: Json,"budget_ms"?: number,"filters"?: Json,"page_size"?: number }; Returns: Json
                           },
"frame_steps":
{ Args: { "max_steps"?: number,"training_run_id": string }; Returns: Json
                           },
"generation_prompt":
{ Args: { "generation_id": string }; Returns: (number)[]
                           },
"generations":
{ Args: { "": Database["public"]['Tables']["agent_states"]['Row'] }; Returns: { error: true } & "the function public.generations with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "agent_states"
        to: "generations"
        isOneToOne: false
        isSetofReturn: true
      } },
"group_comparison":
{ Args: { "group_id": string }; Returns: Json
                           },
"heartbeat":
{ Args: { "current_step"?: number,"progress"?: number,"run_id": string }; Returns: string
                           },
"ingest":
{ Args: { "all_or_nothing"?: boolean,"batch": Json,"leases"?: (string)[],"return_rows"?: boolean }; Returns: Json
                           },
"interrupt":
{ Args: { "entries": Json,"reason"?: string }; Returns: number
                           },
"invite_member":
{ Args: { "email": string,"expires_at"?: string,"role"?: string }; Returns: Json
                           },
"jobs_overview":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"keep_validators":
{ Args: { "task_ids": (string)[],"validator_ids": (string)[] }; Returns: number
                           },
"list_members":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"list_tasks":
{ Args: { "after"?: Json,"filters"?: Json,"page_size"?: number,"recent"?: number }; Returns: Json
                           },
"load_archived":
{ Args: { "kind": string,"rows": string,"training_run_id": string }; Returns: number
                           },
"load_batch":
{ Args: { "": string }; Returns: Json
                           },
"media":
{ Args: { "": Database["public"]['Tables']["agent_states"]['Row'] }; Returns: { error: true } & "the function public.media with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "agent_states"
        to: "media"
        isOneToOne: false
        isSetofReturn: true
      } },
"metric_names":
{ Args: { "training_run_id": string }; Returns: Json
                           },
"metric_series":
{ Args: { "from_step"?: number,"max_points"?: number,"names"?: (string)[],"timeline"?: number,"to_step"?: number,"training_run_id": string }; Returns: Json
                           },
"observations":
{ Args: { "": Database["public"]['Tables']["agent_states"]['Row'] }; Returns: { error: true } & "the function public.observations with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "agent_states"
        to: "observations"
        isOneToOne: false
        isSetofReturn: true
      } },
"override_validation":
{ Args: { "reason": string,"rollout_id": string,"validation_id"?: string,"verdict": string }; Returns: Json
                           },
"prepare_sign_in_link":
{ Args: { "member_id": string }; Returns: string
                           },
"preview_job":
{ Args: { "config"?: Json,"run_id": string }; Returns: Json
                           },
"preview_sweep":
{ Args: { "sweep": Json }; Returns: Json
                           },
"prune_trial":
{ Args: { "lease_id": string,"trial": number }; Returns: boolean
                           },
"queue_overview":
{ Args: { "listed"?: number }; Returns: Json
                           },
"read_job_logs":
{ Args: { "after"?: number,"attempt"?: number,"job_id": string,"max_bytes"?: number }; Returns: Json
                           },
"redeem_invitation":
{ Args: { "display_name"?: string,"token": string,"user_id": string }; Returns: Json
                           },
"register_orchestrator":
{ Args: { "orchestrator": Json }; Returns: Json
                           },
"register_worker":
{ Args: { "worker": Json }; Returns: Json
                           },
"release_rollouts":
{ Args: { "counts"?: boolean,"lease_ids": (string)[],"reason"?: string,"worker_id": string }; Returns: number
                           },
"renew_jobs":
{ Args: { "lease_ids": (string)[],"lease_seconds"?: number,"orchestrator_id": string }; Returns: Json
                           },
"renew_rollouts":
{ Args: { "lease_ids": (string)[],"lease_seconds"?: number,"worker_id": string }; Returns: Json
                           },
"request_choices":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"request_evaluation":
{ Args: { "request": Json,"request_id"?: string }; Returns: Json
                           },
"request_job":
{ Args: { "config"?: Json,"job_id"?: string,"run_id": string }; Returns: Json
                           },
"request_rollouts":
{ Args: { "request": Json,"request_id"?: string }; Returns: Json
                           },
"request_sweep":
{ Args: { "sweep": Json }; Returns: Json
                           },
"restart_job":
{ Args: { "attempt": number,"lease_id": string,"reason": string }; Returns: Json
                           },
"resume_run":
{ Args: { "change_id": string,"known_metric_step"?: number,"known_rewinds"?: Json,"known_step"?: number,"known_timeline"?: number,"may_begin"?: boolean,"rewind_to_last"?: boolean,"rewind_to_step"?: number,"run_id": string }; Returns: Json
                           },
"retire_orchestrator":
{ Args: { "orchestrator_id": string }; Returns: number
                           },
"retire_worker":
{ Args: { "worker_id": string }; Returns: number
                           },
"retry_job":
{ Args: { "job_id": string }; Returns: Json
                           },
"retry_rollouts":
{ Args: { "rollout_ids": (string)[] }; Returns: Json
                           },
"revoke_invitation":
{ Args: { "invitation_id": string }; Returns: Json
                           },
"revoke_key":
{ Args: { "key_id": string }; Returns: Json
                           },
"rewards":
{ Args: { "": Database["public"]['Tables']["rollouts"]['Row'] }; Returns: { error: true } & "the function public.rewards with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "rollouts"
        to: "rewards"
        isOneToOne: false
        isSetofReturn: true
      } },
"rollout_outline":
{ Args: { "rollout_id": string }; Returns: Json
                           },
"rollout_result":
{ Args: { "max_chars"?: number,"rollout_id": string }; Returns: Json
                           },
"rollout_rewards":
{ Args: { "rollout_id": string }; Returns: Json
                           },
"rollout_turns":
{ Args: { "from_step"?: number,"max_chars"?: number,"rollout_id": string,"turn_count"?: number }; Returns: Json
                           },
"rollouts":
{ Args: { "": Database["public"]['Tables']["agent_states"]['Row'] }; Returns: { error: true } & "the function public.rollouts with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "agent_states"
        to: "rollouts"
        isOneToOne: true
        isSetofReturn: true
      } } |
{ Args: { "": Database["public"]['Views']["rewards"]['Row'] }; Returns: { error: true } & "the function public.rollouts with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "rewards"
        to: "rollouts"
        isOneToOne: true
        isSetofReturn: true
      } },
"run_facets":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"run_frames":
{ Args: { "steps": (number)[],"training_run_id": string }; Returns: Json
                           },
"run_health":
{ Args: { "sample"?: number,"training_run_id": string }; Returns: Json
                           },
"run_metrics":
{ Args: { "environment"?: string,"rollout_limit"?: number,"training_run_id"?: string }; Returns: Json
                           },
"run_progress":
{ Args: { "buckets"?: number,"training_run_id": string }; Returns: Json
                           },
"save_preview":
{ Args: { "environment_id": string,"preview"?: string,"preview_error"?: string,"version": number }; Returns: boolean
                           },
"search_rollout":
{ Args: { "max_matches"?: number,"rollout_id": string,"text": string }; Returns: Json
                           },
"set_display_name":
{ Args: { "display_name": string }; Returns: Json
                           },
"stop_jobs":
{ Args: { "job_ids": (string)[] }; Returns: Json
                           },
"stop_run":
{ Args: { "run_id": string }; Returns: Json
                           },
"stop_sweep":
{ Args: { "sweep_id": string }; Returns: Json
                           },
"stop_workers":
{ Args: { "worker_ids": (string)[] }; Returns: number
                           },
"sweep_overview":
{ Args: { "sweep_id": string }; Returns: Json
                           },
"task_facets":
{ Args: Record<PropertyKey, never>; Returns: Json
                           },
"task_history":
{ Args: { "buckets"?: number,"sample"?: number,"task_id": string }; Returns: Json
                           },
"task_results":
{ Args: { "sample"?: number,"task_id": string }; Returns: Json
                           },
"tool_calls":
{ Args: { "": Database["public"]['Tables']["agent_states"]['Row'] }; Returns: { error: true } & "the function public.tool_calls with parameter or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache"
                          SetofOptions: {
        from: "agent_states"
        to: "tool_calls"
        isOneToOne: false
        isSetofReturn: true
      } },
"turn_chat":
{ Args: { "agent_state_id": string }; Returns: Json
                           },
"turn_fingerprints":
{ Args: { "rollout_id": string }; Returns: Json
                           },
"turn_generation":
{ Args: { "generation_id": string }; Returns: Json
                           },
"update_job":
{ Args: { "changes": Json,"lease_id": string }; Returns: Json
                           },
"update_sweep":
{ Args: { "changes": Json,"lease_id": string }; Returns: Json
                           },
"video_times":
{ Args: { "rollout_id": string }; Returns: Json
                           },
"watch_rollouts":
{ Args: { "listed"?: number,"requested_at"?: string,"task_id"?: string }; Returns: Json
                           }
          }
          Enums: {
            [_ in never]: never
          }
          CompositeTypes: {
            [_ in never]: never
          }
        }
}

type DatabaseWithoutInternals = Omit<Database, '__InternalSupabase'>

type DefaultSchema = DatabaseWithoutInternals[Extract<keyof Database, "public">]

export type Tables<
  DefaultSchemaTableNameOrOptions extends
    | keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
        DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? (DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"] &
      DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"])[TableName] extends {
      Row: infer R
    }
    ? R
    : never
  : DefaultSchemaTableNameOrOptions extends keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
  ? (DefaultSchema["Tables"] & DefaultSchema["Views"])[DefaultSchemaTableNameOrOptions] extends {
      Row: infer R
    }
    ? R
    : never
  : never

export type TablesInsert<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Insert: infer I
    }
    ? I
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
  ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Insert: infer I
    }
    ? I
    : never
  : never

export type TablesUpdate<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends {
      Update: infer U
    }
    ? U
    : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
  ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Update: infer U
    }
    ? U
    : never
  : never

export type Enums<
  DefaultSchemaEnumNameOrOptions extends
    | keyof DefaultSchema["Enums"]
    | { schema: keyof DatabaseWithoutInternals },
  EnumName extends DefaultSchemaEnumNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"]
    : never = never
> = DefaultSchemaEnumNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"][EnumName]
  : DefaultSchemaEnumNameOrOptions extends keyof DefaultSchema["Enums"]
  ? DefaultSchema["Enums"][DefaultSchemaEnumNameOrOptions]
  : never

export type CompositeTypes<
  PublicCompositeTypeNameOrOptions extends
    | keyof DefaultSchema["CompositeTypes"]
    | { schema: keyof DatabaseWithoutInternals },
  CompositeTypeName extends PublicCompositeTypeNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals
  }
    ? keyof DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"]
    : never = never
> = PublicCompositeTypeNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"][CompositeTypeName]
  : PublicCompositeTypeNameOrOptions extends keyof DefaultSchema["CompositeTypes"]
  ? DefaultSchema["CompositeTypes"][PublicCompositeTypeNameOrOptions]
  : never

export const Constants = {
  "public": {
          Enums: {
            
          }
        }
} as const
